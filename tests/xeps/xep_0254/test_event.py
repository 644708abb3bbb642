from datetime import UTC, datetime
from xml.etree.ElementTree import Element, fromstring

import pytest
from slixmpp import Message
from slixmpp.plugins.xep_0060.stanza import EventItems

from pubqueue_xeps.xep_0254.event import (
    Deleted,
    Delivered,
    Lock,
    Purged,
    Retracted,
    Unlocked,
    read_event,
)

HEAD = "<message xmlns='jabber:client' from='q.localhost' to='bot@localhost/one'>"
EVENT = "<event xmlns='http://jabber.org/protocol/pubsub#event'>"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
SOON = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


def message(inside, beside=""):
    return fromstring(f"{HEAD}{EVENT}{inside}</event>{beside}</message>")


def test_headers_are_read_from_beside_the_event():
    shim = "http://jabber.org/protocol/shim"
    inner = "".join(f"<header name='{n}'>{v}</header>" for n, v in ("a1", "b2", "a3"))
    item = "<items node='jobs'><item id='i1'><job xmlns='x'/></item></items>"
    (reported,) = read_event(message(item, f"<headers xmlns='{shim}'>{inner}</headers>"))
    assert reported.headers == {"a": "3", "b": "2"}
    (reported,) = read_event(message(item))
    assert reported.headers == {}


@pytest.mark.parametrize("namespace", ["urn:xmpp:pubsub:queueing:0", "urn:xmpp:queueing:0"])
def test_an_unlock_event_is_read_in_both_namespaces(namespace):
    xml = message(f"<items node='jobs'><unlock xmlns='{namespace}' id='i1'/></items>")
    assert read_event(xml) == [Unlocked("q.localhost", "jobs", "i1")]


def test_slixmpp_does_not_take_an_unlocked_item_for_a_published_one():
    xml = message("<items node='jobs'><unlock xmlns='urn:xmpp:queueing:0' id='i1'/></items>")
    items = Message(xml=xml)["pubsub_event"]["items"]
    assert (type(items), len(items)) == (EventItems, 0)


@pytest.mark.parametrize(("said", "failed"), [("", 0), (" failed='3'", 3)])
def test_a_lock_has_the_number_of_failures_of_its_item(said, failed):
    lock = (
        "<lock xmlns='urn:x-pubqueue:0' token='17' attempt='5' deadline='2026-01-01T00:05:00.000Z'"
        f"{said}/>"
    )
    (event,) = read_event(message("<items node='jobs'><item id='i1'/></items>", lock))
    assert (event.lock.attempt, event.lock.failed) == (5, failed)


def test_a_delivery_is_read_with_its_payload_and_lock():
    lock = (
        "<lock xmlns='urn:x-pubqueue:0' token='17' attempt='2' deadline='2026-01-01T00:05:00.000Z'"
        " published='2026-01-01T00:00:00.000Z'/>"
    )
    item = "<item id='i1' publisher='etl@localhost'><job xmlns='x'/></item>"
    (event,) = read_event(message(f"<items node='jobs'>{item}</items>", lock))
    assert isinstance(event.payload, Element)
    assert event == Delivered(
        "q.localhost", "jobs", "i1", event.payload, "etl@localhost", Lock(17, SOON, 2, LONG_AGO)
    )


@pytest.mark.parametrize("lock", ["token='x' attempt='1' deadline='2026-01-01'", "token='1'"])
def test_a_lock_that_cannot_be_read_does_not_take_the_item_with_it(lock, caplog):
    beside = f"<lock xmlns='urn:x-pubqueue:0' {lock}/>"
    (event,) = read_event(message("<items node='jobs'><item id='i1'/></items>", beside))
    assert event == Delivered("q.localhost", "jobs", "i1", None, None, None)
    assert "lock.unreadable" in caplog.text


@pytest.mark.parametrize(
    ("inside", "events"),
    [
        ("<items node='jobs'><retract id='i1'/></items>", [Retracted("q.localhost", "jobs", "i1")]),
        ("<purge node='jobs'/>", [Purged("q.localhost", "jobs")]),
        ("<delete node='jobs'/>", [Deleted("q.localhost", "jobs")]),
        ("<configuration node='jobs'/>", []),
        ("", []),
    ],
)
def test_other_events(inside, events):
    assert read_event(message(inside)) == events


def test_a_bounce_is_no_event():
    xml = message("<items node='jobs'><item id='i1'/></items>")
    xml.set("type", "error")
    assert read_event(xml) == []
