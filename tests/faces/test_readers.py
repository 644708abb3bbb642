"""Names and cursors that the service makes: a reader takes what a writer writes, and nothing else."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from types import SimpleNamespace

import msgspec
import pytest

from pubqueue.faces.grpc import wire
from pubqueue.faces.http.problems import ProblemError
from pubqueue.faces.rest.hornetq import pulling
from pubqueue.faces.rest.star import consuming
from pubqueue.faces.xmpp import bounces, deliveries
from pubqueue.faces.xmpp.xml.stanza import Element
from pubqueue.model.entities import Connection, Item, ItemId, Jid, State, connection, is_number
from pubqueue.operations.model import UnfitError
from pubqueue.operations.searching import place_from, place_in_words
from pubqueue.rules.discovery import named
from pubqueue.stores.sqlite.instances import number_file, numbered
from pubqueue_xeps.wire import ns

SERVICE, BEE = Jid("queue.localhost"), Jid("bee@queue.localhost")
SEVEN = "\N{ARABIC-INDIC DIGIT SEVEN}"
OTHER_DIGITS = "07", " 7", "+7", "7_0", SEVEN, "7" + "0" * 30
"""Texts that `int` reads as 7, or as a number that no name has."""


def of_path(read, name):
    """Return whether a handler of REST takes a number in a path."""

    def takes(text):
        try:
            return read(SimpleNamespace(names={name: text})) == 7
        except ProblemError:
            return False

    return takes


def of_stanza(read, before):
    """Return whether the id of a stanza is read."""
    return lambda text: read(a_stanza(f"{before}{text}"))


def a_stanza(name):
    """Return an error that answers a stanza of this id."""
    error = Element(ns.tag(ns.COMPONENT, "error"), {"type": "cancel"}, 0)
    error.children = [Element(ns.tag(ns.STANZAS, "gone"), {}, 0)]
    stanza = Element(
        ns.tag(ns.COMPONENT, "message"), {"id": name, "from": "bee@x/1", "type": "error"}, 0
    )
    stanza.children = [error]
    return stanza


NUMBERS = {
    "a token of REST": of_path(consuming.token_of, "token"),
    "the number of a message of a consumer": of_path(pulling.number_of, "number"),
    "the lock of a delivery": of_stanza(deliveries.lock_of, "pq-1-"),
    "the lock of a bounce": of_stanza(bounces.bounce, "pq-1-"),
    "an instance in an address": lambda text: connection(Jid(f"{BEE}/stomp.{text}.a"), SERVICE),
    "the place of a subscription": lambda text: named(f"{text} node-7-bee@x"),
    "a number": is_number,
}


@pytest.mark.parametrize("reader", NUMBERS)
def test_a_number_is_read_as_it_is_written(reader):
    read = NUMBERS[reader]
    assert read("7")
    assert [text for text in OTHER_DIGITS if read(text)] == []


def test_a_connection_has_the_address_that_was_made_for_it():
    one = Connection(BEE, "stomp", 7, "a.b")
    assert connection(one.address, SERVICE) == one


def test_a_process_has_the_file_that_was_made_for_it(tmp_path):
    path = tmp_path / "q.db"
    number_file(path, 7).touch()
    for odd in ("07", SEVEN, "7x"):
        (tmp_path / f"q.db-instance-{odd}").touch()
    assert numbered(path) == [7]


@pytest.mark.parametrize("number", [3, 2.5, 0.1, float("inf")])
def test_a_place_of_the_overview_is_one_of_an_answer(number):
    assert place_from(place_in_words((number, "a:b"))) == (number, "a:b")


@pytest.mark.parametrize("odd", ["3_0", " 3", "03", "3e0", "+3", SEVEN, "nan", "1e400"])
def test_another_place_is_refused(odd):
    with pytest.raises(UnfitError):
        place_from(f"{odd}:a")


def test_an_ack_id_is_one_that_was_given():
    item = Item(1, "jobs", ItemId("i"), State.LOCKED, "etl@x", 0, holder=BEE, token=7)
    written = wire.ack_id(item)
    assert wire.lock_of(written, BEE).token == 7
    data = urlsafe_b64decode(written + "=" * (-len(written) % 4))
    longer = msgspec.msgpack.encode([*msgspec.msgpack.decode(data), "more"])
    others = (
        f"{written[:4]}!{written[4:]}",
        f"{written}=",
        urlsafe_b64encode(data + b"\0").decode().rstrip("="),
        urlsafe_b64encode(longer).decode().rstrip("="),
    )
    assert [odd for odd in others if wire.lock_of(odd, BEE)] == []
