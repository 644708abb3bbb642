"""Who may read the items of a plain node after a number, and where the next page starts."""

import pytest
from harness.batches.facts import ANN, EVE, JOBS, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.decision import Decision, Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, NodeName
from pubqueue.model.replies import NewerItems, Newest, RostersWanted
from pubqueue.rules.retrieve import (
    AskNewest,
    AskNewestFacts,
    ReadNewer,
    ReadNewerFacts,
    ask_newest,
    no_page,
    read_newer,
)

ROWS = (waiting(3), b"<three/>"), (waiting(7), b"<seven/>")
NONE, MEMBER = Affiliation.NONE, Affiliation.MEMBER


def ask(node, affiliation=NONE, *, after=2, subscribed=False, by=EVE, **known):
    facts = {"items": ROWS, "newest": 9} | known
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
    decision = ask(plain(access_model=model), affiliation, subscribed=subscribed)
    if refusal is None:
        assert isinstance(decision.reply, NewerItems)
    else:
        assert decision.reply.refusal is refusal
    assert (decision.changes, decision.notices) == ((), ())


def test_a_closed_node_is_closed_to_strangers():
    decision = ask(plain(access_model=AccessModel.WHITELIST))
    assert isinstance(decision.reply, Refused)


@pytest.mark.parametrize("affiliation", set(Affiliation) - {Affiliation.OUTCAST})
def test_queues_cannot_be_read_in_this_way(affiliation):
    decision = ask(queue(), affiliation, subscribed=True)
    assert isinstance(decision.reply, Refused)
    if affiliation is not Affiliation.PUBLISH_ONLY:
        assert decision.reply.refusal is Refusal.BAD_REQUEST


def test_there_has_to_be_a_node_that_keeps_items():
    assert ask(None).reply == Refused(Refusal.NODE_NOT_FOUND)
    nothing = plain(persist_items=False, deliver_payloads=False)
    assert ask(nothing).reply == Refused(Refusal.UNSUPPORTED, setting="persistent-items")
    assert isinstance(ask(plain(persist_items=False)).reply, NewerItems)


def test_rosters_are_asked_where_they_decide():
    node = plain(access_model=AccessModel.ROSTER)
    request = ReadNewer(who(ANN, local=True), JOBS)
    request = replace(request, by=replace(request.by, rosters=True))
    facts = ReadNewerFacts(node, NONE, subscribed=False, owners=(EVE,))
    assert isinstance(no_page(request, facts), RostersWanted)


def test_a_page_names_where_to_continue_and_whether_more_follow():
    node = plain()
    assert ask(node).reply == NewerItems(node, ROWS, 7, 9, more=True)
    assert ask(node, newest=7).reply == NewerItems(node, ROWS, 7, 7)
    assert ask(node, items=(), after=12).reply == NewerItems(node, (), 12, 9)
    assert ask(node, kept=False).reply.kept is False


def test_without_a_number_it_returns_where_to_begin():
    node = plain()
    assert ask(node, items=(), after=None).reply == NewerItems(node, (), 9, 9)


def test_the_service_alone_asks_for_the_newest_of_nodes():
    names = NodeName("a"), NodeName("b")
    facts = AskNewestFacts(((names[1], 4),))
    by = who("service", admin=True)
    expected = Decision(Newest(((names[0], 0), (names[1], 4))))
    assert ask_newest(AskNewest(by, names), facts) == expected
    assert ask_newest(AskNewest(who(EVE), names), facts).reply.refusal is Refusal.FORBIDDEN
