"""Which accounts see which items (XEP-0060 6.5, XEP-0254 row 14)."""

import pytest
from harness.batches.facts import ANN, BOB, EVE, JOBS, held, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.decision import Decision, Refusal, Refused, Retrieved
from pubqueue.model.entities import AccessModel, Affiliation, NodeName
from pubqueue.model.replies import WHOLE, NewerItems, Newest, Page, Part, RostersWanted
from pubqueue.rules.retrieve import (
    AskNewest,
    AskNewestFacts,
    ReadNewer,
    ReadNewerFacts,
    Retrieve,
    RetrieveFacts,
    ask_newest,
    no_page,
    read_newer,
    retrieve,
)

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


@pytest.mark.parametrize(
    "bounds",
    [
        {"newest": 1, "page": Page(most=2)},
        {"ids": (ROWS[0][0].id,), "newest": 1},
        {"ids": (ROWS[0][0].id,), "page": Page()},
    ],
)
def test_of_two_bounds_none_is_ignored(bounds):
    facts = RetrieveFacts(queue(), Affiliation.OWNER, subscribed=False, items=ROWS, part=WHOLE)
    decision = retrieve(Retrieve(who(EVE), JOBS, **bounds), facts)
    assert decision.reply.refusal is Refusal.BAD_REQUEST


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


# Who may read the items of a plain node after a number, and where the next page starts.

NEWER_ROWS = (waiting(3), b"<three/>"), (waiting(7), b"<seven/>")
NONE, MEMBER = Affiliation.NONE, Affiliation.MEMBER


def ask_newer(node, affiliation=NONE, *, after=2, subscribed=False, by=EVE, **known):
    facts = {"items": NEWER_ROWS, "newest": 9} | known
    return read_newer(
        ReadNewer(who(by), JOBS, after), ReadNewerFacts(node, affiliation, subscribed, **facts)
    )


# fmt: off
TABLE = [  # access model, affiliation, subscribed, what is refused
    (AccessModel.OPEN,      NONE,                     False, None),
    (AccessModel.OPEN,      Affiliation.OUTCAST,      False, Refusal.FORBIDDEN),
    (AccessModel.OPEN,      Affiliation.PUBLISH_ONLY, False, Refusal.FORBIDDEN),
    (AccessModel.WHITELIST, MEMBER,                   False, None),
    (AccessModel.WHITELIST, Affiliation.OWNER,        False, None),
    (AccessModel.WHITELIST, Affiliation.PUBLISHER,    False, None),
    (AccessModel.WHITELIST, Affiliation.OUTCAST,      True,  Refusal.FORBIDDEN),
    (AccessModel.AUTHORIZE, NONE,                     True,  None),
    (AccessModel.AUTHORIZE, NONE,                     False, Refusal.NOT_APPROVED),
]
# fmt: on


@pytest.mark.parametrize(("model", "affiliation", "subscribed", "refusal"), TABLE)
def test_accounts_that_may_read(model, affiliation, subscribed, refusal):
    decision = ask_newer(plain(access_model=model), affiliation, subscribed=subscribed)
    if refusal is None:
        assert isinstance(decision.reply, NewerItems)
    else:
        assert decision.reply.refusal is refusal
    assert (decision.changes, decision.notices) == ((), ())


def test_a_closed_node_is_closed_to_strangers():
    decision = ask_newer(plain(access_model=AccessModel.WHITELIST))
    assert isinstance(decision.reply, Refused)


@pytest.mark.parametrize("affiliation", set(Affiliation) - {Affiliation.OUTCAST})
def test_queues_cannot_be_read_in_this_way(affiliation):
    decision = ask_newer(queue(), affiliation, subscribed=True)
    assert isinstance(decision.reply, Refused)
    if affiliation is not Affiliation.PUBLISH_ONLY:
        assert decision.reply.refusal is Refusal.BAD_REQUEST


def test_there_has_to_be_a_node_that_keeps_items():
    assert ask_newer(None).reply == Refused(Refusal.NODE_NOT_FOUND)
    nothing = plain(persist_items=False, deliver_payloads=False)
    assert ask_newer(nothing).reply == Refused(Refusal.UNSUPPORTED, setting="persistent-items")
    assert isinstance(ask_newer(plain(persist_items=False)).reply, NewerItems)


def test_rosters_are_asked_where_they_decide():
    node = plain(access_model=AccessModel.ROSTER)
    request = ReadNewer(who(ANN, local=True), JOBS)
    request = replace(request, by=replace(request.by, rosters=True))
    facts = ReadNewerFacts(node, NONE, subscribed=False, owners=(EVE,))
    assert isinstance(no_page(request, facts), RostersWanted)


def test_a_page_names_where_to_continue_and_whether_more_follow():
    node = plain()
    assert ask_newer(node).reply == NewerItems(node, NEWER_ROWS, 7, 9, more=True)
    assert ask_newer(node, newest=7).reply == NewerItems(node, NEWER_ROWS, 7, 7)
    assert ask_newer(node, items=(), after=12).reply == NewerItems(node, (), 12, 9)
    assert ask_newer(node, kept=False).reply.kept is False


def test_without_a_number_it_returns_where_to_begin():
    node = plain()
    assert ask_newer(node, items=(), after=None).reply == NewerItems(node, (), 9, 9)


def test_the_service_alone_asks_for_the_newest_of_nodes():
    names = NodeName("a"), NodeName("b")
    facts = AskNewestFacts(((names[1], 4),))
    by = who("service", admin=True)
    expected = Decision(Newest(((names[0], 0), (names[1], 4))))
    assert ask_newest(AskNewest(by, names), facts) == expected
    assert ask_newest(AskNewest(who(EVE), names), facts).reply.refusal is Refusal.FORBIDDEN
