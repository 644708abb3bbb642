"""What one is told who subscribes several times: behind all else, and once (XEP-0060 7.1.2.4, 7.2.2.2)."""

import pytest
from harness.batches.facts import ANN, JOBS, draft
from msgspec.structs import replace

from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.stream.to_many import MAX_HEAD_LENGTH
from pubqueue.faces.xmpp.xml.stanza import MAX_PAYLOAD_BYTES, new_id
from pubqueue.model.entities import ItemId
from pubqueue.model.notices import Announce, Purged, Retracted
from pubqueue.model.several_subscriptions import MAX_OF_JID
from pubqueue_xeps.wire import ns

IDS = ("one", "two")
HEADERS = '<header name="SubID">one</header><header name="SubID">two</header></headers></message>'
HINT = f'<no-store xmlns="{ns.HINTS}"/>'
ITEM = Announce(ANN, JOBS, draft("a"), None)
TITLED = replace(ITEM, draft=replace(draft("a"), headers=(("Keywords", "verse"),)))
GONE = Retracted(ANN, JOBS, (ItemId("a"),))


def reported(what, *, fleeting=False):
    return notices.rest(what, "queue.x", fleeting=fleeting).decode()


@pytest.mark.parametrize("fleeting", [True, False])
@pytest.mark.parametrize("what", [ITEM, GONE, Announce(ANN, JOBS, None, None)])
def test_the_ids_are_the_last_child(what, fleeting):
    plain, named = (reported(one, fleeting=fleeting) for one in (what, replace(what, subids=IDS)))
    assert "SubID" not in plain
    assert named == plain.removesuffix("</message>") + f'<headers xmlns="{ns.SHIM}">' + HEADERS
    assert (HINT in named) != fleeting


def test_there_is_one_element_of_headers_the_publishers_first():
    named = reported(replace(TITLED, subids=IDS))
    assert named.count("<headers ") == 1
    assert named.endswith(f'<header name="Keywords">verse</header>{HEADERS}')
    assert f"{HINT}</message>" in reported(TITLED)


def test_of_the_node_nothing_is_named():
    assert "SubID" not in reported(Purged(ANN, JOBS))


def test_as_many_as_a_jid_may_have_fit_beside_the_largest_text():
    many = replace(GONE, subids=tuple(new_id() for _ in range(MAX_OF_JID)))
    assert len(reported(many)) - len(reported(GONE)) < MAX_HEAD_LENGTH / 2


@pytest.mark.parametrize(
    ("size", "whole"), [(MAX_PAYLOAD_BYTES, True), (MAX_PAYLOAD_BYTES + 1, False)]
)
def test_an_item_that_servers_would_not_relay_is_named(size, whole):
    given = draft("a", b"x" * size, headers=(("Keywords", "verse"),))
    said = reported(replace(ITEM, draft=given))
    assert ("xxx" in said) is whole
    assert '<item id="a"' in said
    assert "verse" in said
