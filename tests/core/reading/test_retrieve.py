"""Which accounts see which items (XEP-0060 6.5, XEP-0254 row 14)."""

import pytest
from harness.batches.facts import ANN, BOB, EVE, JOBS, held, plain, queue, waiting, who

from pubqueue.model.decision import Decision, Refusal, Refused, Retrieved
from pubqueue.model.entities import AccessModel, Affiliation
from pubqueue.model.replies import WHOLE, Part
from pubqueue.rules.retrieve import Retrieve, RetrieveFacts, retrieve

ROWS = (
    (waiting(1), b"<one/>"),
    (held(2, holder=ANN), b"<two/>"),
    (held(3, holder=BOB), b"<three/>"),
    (held(4, holder="ann@x"), b"<four/>"),
)


def ask(by, node, affiliation=Affiliation.NONE, *, subscribed=False, **known):
    facts = {"items": ROWS, "part": WHOLE} | known
    request = Retrieve(who(by), JOBS)
    return retrieve(request, RetrieveFacts(node, affiliation, subscribed, **facts))


def refused(refusal):
    return Decision(Refused(refusal))


@pytest.mark.parametrize("affiliation", [Affiliation.OWNER, Affiliation.PUBLISHER])
def test_owners_and_publishers_of_a_queue_see_all(affiliation):
    node = queue()
    assert ask(EVE, node, affiliation) == Decision(Retrieved(node, ROWS))


def test_a_worker_sees_what_it_holds():
    node = queue()
    rows = (ROWS[1], ROWS[3])
    assert ask(ANN, node, subscribed=True) == Decision(Retrieved(node, rows))


@pytest.mark.parametrize("affiliation", [Affiliation.NONE, Affiliation.MEMBER])
def test_others_see_nothing_of_a_queue(affiliation):
    node = queue()
    assert ask(EVE, node, affiliation) == Decision(Retrieved(node, ()))


def test_everybody_sees_an_open_plain_node():
    node = plain()
    assert ask(EVE, node) == Decision(Retrieved(node, ROWS))


@pytest.mark.parametrize(
    ("affiliation", "model", "expected"),
    [
        (Affiliation.OUTCAST, AccessModel.OPEN, Refusal.FORBIDDEN),
        (Affiliation.PUBLISH_ONLY, AccessModel.OPEN, Refusal.FORBIDDEN),
        (Affiliation.NONE, AccessModel.WHITELIST, Refusal.CLOSED_NODE),
    ],
)
@pytest.mark.parametrize("kind", [plain, queue])
def test_an_account_that_may_not_read_is_refused(affiliation, model, expected, kind):
    assert ask(EVE, kind(access_model=model), affiliation) == refused(expected)


def test_a_page_has_to_begin_behind_an_item():
    decision = ask(EVE, plain(), after_missing=True)
    assert decision == refused(Refusal.ITEM_NOT_FOUND)


def test_without_the_node_there_is_nothing_to_see():
    facts = RetrieveFacts(None, Affiliation.NONE, subscribed=False, items=(), part=WHOLE)
    assert retrieve(Retrieve(who(EVE), JOBS), facts) == refused(Refusal.NODE_NOT_FOUND)


def test_a_part_is_marked_as_a_part():
    node = plain()
    part = Part(more=True, total=9)
    assert ask(EVE, node, part=part) == Decision(Retrieved(node, ROWS, part))
