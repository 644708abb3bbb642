"""The page of limits for operators: its numbers are those of the code, and what it names is there."""

import re
from pathlib import Path

import msgspec
import pytest

from pubqueue.accounts import accounts
from pubqueue.curb import server as curb
from pubqueue.engine.connections import Reason
from pubqueue.faces.grpc import server as grpc
from pubqueue.faces.grpc import transcoding
from pubqueue.faces.grpc.settings import JSON_BOUNDS, GrpcSettings
from pubqueue.faces.http import host
from pubqueue.faces.listener import budget, connection, listener
from pubqueue.faces.push import client as pushes
from pubqueue.faces.rest.settings import RestSettings
from pubqueue.faces.stomp import protocol, unsettled, web_socket
from pubqueue.faces.stomp.settings import StompSettings
from pubqueue.model.limits import ACCOUNT, EVERYBODY
from pubqueue.model.records import MESSAGE_LIMITS
from pubqueue.rules import take

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "operations" / "limits.md").read_text()
MONITORING = (ROOT / "docs" / "operations" / "monitoring.md").read_text()

STOMP, REST, GRPC = StompSettings(), RestSettings(), GrpcSettings()


def size(count):
    """Return bytes as the page has them."""
    unit, word = (1 << 20, "MiB") if count >= 1 << 20 else (1 << 10, "KiB")
    return f"{count / unit:g} {word}"


def number(value):
    """Return a number as the page has it."""
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


# fmt: off
NUMBERS = {
    "connections over HTTP": number(host.BOUNDS.connections),
    "connections over HTTP from one address, or requests of one client behind a named proxy": number(host.BOUNDS.per_peer),
    "connections of REST at an address of its own": number(REST.bounds().connections),
    "connections of REST there from one address": number(REST.bounds().per_peer),
    "connections of JSON at an address of its own": number(JSON_BOUNDS.connections),
    "connections of STOMP": number(STOMP.bounds().connections),
    "connections of STOMP from one address": number(STOMP.bounds().per_peer),
    "connections of STOMP of one user": number(STOMP.bounds().per_user),
    "connections of curb": number(curb.BOUNDS.connections),
    "connections that begin, and pieces of what clients have sent that are read, in a turn of the loop":
        f"{number(connection.ENTRIES)}, or {connection.SLICE * 1000:g} ms of them",
    "descriptors that are kept for the store and the server": number(listener.RESERVE),
    "seconds for the handshake of TLS": number(STOMP.bounds().handshake),
    "seconds to log in over STOMP": number(STOMP.bounds().login),
    "seconds for the head of a request over HTTP": number(host.REQUEST),
    "seconds for its body, and for the answer": number(host.REQUEST),
    "seconds for the head of a request of REST at an address of its own": number(REST.head_timeout),
    "seconds for the body of a request of REST": number(REST.body_timeout),
    "seconds without a request on a connection over HTTP": number(host.IDLE),
    "seconds in which a client over HTTP reads its answer": number(host.BOUNDS.unread),
    "seconds in which a client of STOMP reads": number(STOMP.bounds().unread),
    "bytes that clients have the process keep, all listeners together: what is not whole yet, and what a conversation keeps":
        size(budget.KEPT.most),
    "bytes of one connection that are not counted there": size(budget.SMALL),
    "bytes of unfinished frames of curb": size(curb.MAX_KEPT),
    "bytes that wait to be sent to one client of STOMP": size(STOMP.bounds().unsent),
    "bytes of a client after which others have their turn": size(connection.TURN),
    "bytes of the head of a frame before CONNECT": size(protocol.BEFORE_LOGIN.head),
    "bytes of a body over HTTP, unless a route has another limit": size(host.MAX_BODY_BYTES),
    "bytes of the body of a batch over REST": size(REST.max_batch_body),
    "bytes of the body of a call in JSON": size(transcoding.MAX_BODY),
    "bytes of a message over gRPC": size(grpc.MAX_MESSAGE),
    "bytes of a message of WebSocket": size(web_socket.MAX_MESSAGE_BYTES),
    "bytes of open transactions of a connection of STOMP": size(unsettled.MAX_BYTES),
    "unanswered requests of an account": number(ACCOUNT.requests),
    "bytes of these": (size(ACCOUNT.byte_count), size(MESSAGE_LIMITS.bytes_per_account)),
    "unanswered requests of all accounts": number(EVERYBODY.requests),
    "bytes of these of all accounts": (size(EVERYBODY.byte_count), size(MESSAGE_LIMITS.bytes)),
    "requests of an account that only read": number(ACCOUNT.reads),
    "requests that only read, of all accounts": number(EVERYBODY.reads),
    "seconds of processor time for refused requests of an account": number(ACCOUNT.refused),
    "requests for items that wait, of all accounts": number(take.MAX_WAITING),
    "requests for items that wait, of one account": number(take.MAX_OF_ACCOUNT),
    "requests of REST that wait": number(REST.max_waiting),
    "requests of REST of one account that wait": number(REST.max_waiting_of_account),
    "streams of gRPC": number(GRPC.streams),
    "streams of gRPC of one account": number(GRPC.streams_per_account),
    "calls of gRPC on one connection": number(dict(grpc.OPTIONS)["grpc.max_concurrent_streams"]),
    "subscriptions of a connection of STOMP": number(STOMP.subscriptions_per_connection),
    "wrong attempts of an address under one name": number(accounts.FREE),
    "names under which an address may be wrong": number(accounts.FREE_NAMES),
    "wrong attempts of all addresses in a minute": number(accounts.MANY),
    "passwords that are compared at a time": number(accounts.AT_ONCE),
    "passwords that wait to be compared": number(accounts.MAX_WAITING),
    "assured messages that are held of one account": number(MESSAGE_LIMITS.messages_per_account),
    "assured messages that are held of all accounts": number(MESSAGE_LIMITS.messages),
    "failures of a push of REST in a row": number(REST.push_retries),
    "connections for pushes of REST": number(pushes.LIMIT),
    "connections for pushes of REST to one host": number(pushes.LIMIT_PER_HOST),
    "bytes of the answer to a push that are read": size(pushes.MAX_ANSWER),
}
# fmt: on


def rows():
    """Return the first two cells of each limit, as often as the page has it."""
    cells = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| limit |"))
    ]
    return [(one[0], one[1]) for one in cells]


def test_each_number_is_that_of_the_code():
    wanted = []
    for what, value in NUMBERS.items():
        wanted += [(what, one) for one in (value if isinstance(value, tuple) else (value,))]
    assert sorted(rows()) == sorted(wanted)


def test_the_reasons_are_those_of_connections():
    named = set(re.findall(r"reason `([a-z]+)`", PAGE))
    assert named <= set(Reason)
    assert {Reason.MEMORY, Reason.UNREAD, Reason.LOGIN, Reason.PEER} <= named


def test_the_metrics_are_there():
    named = set(re.findall(r"`(pubqueue_\w+)`", PAGE))
    assert named
    assert named <= set(re.findall(r"`(pubqueue_\w+)`", MONITORING))


@pytest.mark.parametrize("settings", [STOMP, REST, GRPC])
def test_the_keys_are_there(settings):
    table = type(settings).__name__.removesuffix("Settings").lower()
    named = set(re.findall(rf"`{table}\.(\w+)`", PAGE))
    assert named
    assert named <= {field.name for field in msgspec.structs.fields(settings)}
