"""The requests about single items, as the XEP prints them."""

from xml.etree.ElementTree import fromstring

import pytest

from pubqueue_xeps.wire.refusals import Outcome
from pubqueue_xeps.wire.requests.queueing import ItemRequests, deadline, fault, lock

ITEMS = ItemRequests("jobs & more")


def test_a_retract_is_example_6_of_the_xep():
    retract, meant = fromstring(ITEMS.retract("i'1", lock(17)))
    assert (retract.tag, retract.attrib) == (
        "{http://jabber.org/protocol/pubsub}retract",
        {"node": "jobs & more"},
    )
    assert [(it.tag, it.attrib) for it in retract] == [
        ("{http://jabber.org/protocol/pubsub}item", {"id": "i'1"})
    ]
    assert (meant.tag, meant.attrib) == ("{urn:x-pubqueue:0}lock", {"token": "17"})


def test_an_unlock_is_example_10_of_the_xep():
    (unlock,) = fromstring(ITEMS.unlock("i1"))
    assert (unlock.tag, unlock.attrib) == (
        "{urn:xmpp:pubsub:queueing:0}unlock",
        {"node": "jobs & more"},
    )
    assert [(it.tag, it.attrib) for it in unlock] == [
        ("{urn:xmpp:pubsub:queueing:0}item", {"id": "i1"})
    ]


def test_an_unlock_tells_failures_from_releases():
    _, said = fromstring(ITEMS.unlock("i1", fault(Outcome("failed", 2.5, "no <seat>"))))
    assert said.tag == "{urn:x-pubqueue:0}outcome"
    assert said.attrib == {"type": "failed", "delay": "2.500", "reason": "no <seat>"}


def test_nothing_stands_beside_what_has_neither_token_nor_outcome():
    assert lock(None) + fault(None) == ""


def test_a_touch_is_answered_with_a_deadline():
    touch = fromstring(ITEMS.touch("i1", 60))
    assert (touch.get("seconds"), touch[0].get("id")) == ("60.000", "i1")
    inner = "<item id='i1' deadline='2026-01-01T00:05:00Z'/>"
    answer = f"<iq><touch xmlns='urn:x-pubqueue:0'>{inner}</touch></iq>"
    assert deadline(fromstring(answer)).minute == 5
    with pytest.raises(ValueError, match="''"):
        deadline(fromstring("<iq/>"))
