"""The common parts of pull consumers of queues and pull subscriptions of topics: their paths, links and answers."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.hornetq.consumers import address_of
from pubqueue.faces.rest.hornetq.destinations import PULL
from pubqueue.faces.rest.hornetq.links import fields_of, linked
from pubqueue.faces.rest.http import cors
from pubqueue.faces.rest.http.links import Link, path
from pubqueue.faces.rest.http.problems import ProblemError, bad_request, not_found
from pubqueue.faces.rest.http.waits import wait_of
from pubqueue.faces.rest.items.delivered import body_of, headers_of
from pubqueue.faces.rest.star.acknowledging import FORM, form
from pubqueue.faces.rest.star.consuming import nothing
from pubqueue.model.entities import Jid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.hornetq.consumers import PullConsumer
    from pubqueue.model.entities import Item, Principal

AUTO, MANUAL = "1", "2"
"""The segment in the path of a consumer: whether it acknowledges messages as they are sent."""

_NUMBER: Final = re.compile(r"\d{1,15}", re.ASCII)
_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


def number_of(exchange: Exchange) -> int:
    """Return the number of a request for a message, which is in the path.

    Raises:
        ProblemError: it is invalid.

    """
    text = exchange.names["number"]
    if not _NUMBER.fullmatch(text):
        raise not_found("there is no such link")
    return int(text)


def consumer_of(exchange: Exchange, kind: str, *, is_queue: bool = True) -> tuple[Principal, str]:
    """Return the address in the path, for the account of the request, and the URL of the consumer.

    Raises:
        ProblemError: the path names none.

    """
    name, wanted = exchange.names["name"], exchange.names["kind"]
    if wanted != kind or wanted not in {AUTO, MANUAL} or not _NAME.fullmatch(name):
        raise not_found("there is no such consumer")
    return principal_of(exchange, name), url_of(exchange, kind, name, is_queue=is_queue)


def principal_of(exchange: Exchange, name: str) -> Principal:
    """Return the principal of a consumer of the account of the request."""
    return exchange.face.accounts.principals.of(Jid(address_of(exchange.by.account, name)))


def url_of(exchange: Exchange, kind: str, name: str, *, is_queue: bool = True) -> str:
    """Return the URL of a consumer."""
    place = exchange.destination(is_queue=is_queue)
    return exchange.url(*place, PULL[is_queue], f"attributes-{kind}", name)


def due(consumer: PullConsumer, where: str) -> Link:
    """Return the link to the next message."""
    rel = "consume-next" if consumer.is_auto else "acknowledge-next"
    return Link(rel, f"{where}/{rel}-{consumer.due}")


def itself(where: str) -> Link:
    """Return the link to the consumer."""
    return Link("consumer", where)


def acknowledgement_of(item: Item, number: int, where: str) -> Link:
    """Return the link that acknowledges a message, by the token of its lock or by its number in a topic."""
    return Link("acknowledgement", where + path("acknowledgement", item.id, f"{number}"))


def stale(consumer: PullConsumer, where: str) -> ProblemError:
    """Return the problem of a link that is not due, with the one that is."""
    detail = "this link was used, or is of an earlier process"
    headers = fields_of([due(consumer, where)])
    return ProblemError(412, "precondition-failed", detail, headers=headers)


@asynccontextmanager
async def in_turn(exchange: Exchange, consumer: PullConsumer) -> AsyncIterator[None]:
    """Answer one request of the consumer at a time; meanwhile it is not idle."""
    exchange.face.pulling.begin(consumer)
    try:
        async with consumer.turn:
            yield
    finally:
        exchange.face.pulling.end(consumer)


def nothing_yet(exchange: Exchange, consumer: PullConsumer, where: str) -> web.Response:
    """Return the answer when there was no message in time, with the link, which stays valid."""
    wait = wait_of(exchange.request.headers, exchange.terms.longest_wait)
    response = nothing(exchange, wait)
    for name, value in fields_of([due(consumer, where)]):
        response.headers.add(name, value)
    return response


def message_with(exchange: Exchange, item: Item, payload: bytes, links: list[Link]) -> web.Response:
    """Return a message with these links."""
    kind, body = body_of(item, payload)
    headers = [*headers_of(item, exchange.reply_url), ("Cache-Control", "no-store")]
    return linked(200, links, headers, body=body, kind=kind)


async def wishes_of(exchange: Exchange) -> tuple[str, dict[str, str]]:
    """Return the kind of a new consumer, and its form, which may be missing.

    Raises:
        ProblemError: it cannot be read, or has a selector.

    """
    wishes: dict[str, str] = {}
    if exchange.request.content_type == FORM and "Content-Type" in exchange.request.headers:
        wishes = dict(await form(exchange))
    else:
        await exchange.no_body()
    if wishes.get("selector"):
        raise ProblemError(501, "selector-unsupported", "a consumer gets each message in turn")
    auto = wishes.get("autoAck", "true")
    if auto not in {"true", "false"}:
        raise bad_request("autoAck is true or false")
    return AUTO if auto == "true" else MANUAL, wishes


def lost(following: Link) -> ProblemError:
    """Return the problem of an acknowledgement that no longer counts, with the link to the next message."""
    return ProblemError(
        412,
        "lock-lost",
        "the message is not, or no longer, locked to this consumer",
        headers=fields_of([following]),
    )


async def send(exchange: Exchange, response: web.Response) -> None:
    """Send an answer; return once it was written.

    Raises:
        ConnectionError: the client has gone.

    """
    cors.share(response, exchange.request.headers, exchange.terms.cors_origins)
    await response.prepare(exchange.request)
    await response.write_eof()
