"""Commit: all winners or none, and each id as a single publish would treat it."""

import pytest
from harness.batches.facts import ANN, BOB, ETL, FLEETING, JOBS, NOW, draft, plain, queue, who
from harness.batches.transactions import APP, commits

from pubqueue.model.decision import Decision, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, NodeName, State
from pubqueue.model.notices import NOBODY, Announce, ToEach
from pubqueue.model.transactions import (
    App,
    Commit,
    Committed,
    CommittedNode,
    OnTaken,
    OpenVersion,
    Record,
    SetAside,
    TakenId,
    Totals,
)
from pubqueue.rules.commit import (
    CommitFacts,
    CommitNodeFacts,
    CommitVersion,
    LookAtWinners,
    Part,
    WinnerCount,
    commit,
)
from pubqueue.rules.publication import Known

OWN = App(APP, Jid("etl@x"))
TOTALS = Totals(1, 2, 0.5)


def tally(*found, node=None, rows=10, ids=10, **more):
    node = queue() if node is None else node
    may = {"affiliation": Affiliation.PUBLISHER, "subscribed": False}
    return CommitNodeFacts(node.name, node, **(may | more), rows=rows, ids=ids, found=found)


def ask(*tallies, items=10, totals=TOTALS, on_taken=OnTaken.FAIL, dead_letter_node=None, **facts):
    known = {
        "app": OWN,
        "open": OpenVersion(immediate=False, items=items, bytes=99),
        "bytes": 99,
        "staged": {(0, 3): items},
    }
    given = CommitFacts(NOW, nodes=tallies, **(known | facts))
    chosen = on_taken, dead_letter_node
    return commit(CommitVersion(who(ETL), APP, 1, (Part(0, 3, items),), totals, *chosen), given)


def change(*outcomes, items=10):
    return Commit(APP, Jid("etl@x"), 1, NOW, outcomes, items, 99, TOTALS)


def refused(decision):
    assert (decision.changes, decision.notices) == ((), ())
    assert isinstance(decision.reply, Refused)
    return decision.reply


def test_winners_are_published():
    outcome = CommittedNode(JOBS, queueing=True, added=10, replaced=0, left=0)
    assert ask(tally()) == Decision(Committed(1, 10, 0, already=False), (change(outcome),))


def test_whoever_asks_for_progress_may_mean_a_committed_version_that_is_moved():
    facts = CommitFacts(NOW, App(APP, Jid("etl@x"), version=1))
    parts = (Part(0, 3, 10),)
    plain, asking = (CommitVersion(who(ETL), APP, 1, parts, progress=it) for it in (False, True))
    reply = Committed(1, 0, 0, already=True)
    assert commit(plain, facts) == Decision(reply)
    assert commit(asking, facts) == Decision(reply, then=LookAtWinners(asking))
    others = CommitFacts(NOW, App(APP, Jid("bob@x"), version=1))
    assert refused(commit(asking, others)).refusal is Refusal.FORBIDDEN
    assert commit(asking, others).then is None


# fmt: off
# What a single publish does to an id (the table in rules.publish), for many at once.
TABLE = [
    (Known.FINISHED, None,          "left"),
    (Known.SAME,     State.QUEUED,  "left"),
    (Known.SAME,     State.DELAYED, "left"),
    (Known.SAME,     State.LOCKED,  "left"),
    (Known.SAME,     State.DEAD,    "left"),
    (Known.OTHER,    State.QUEUED,  "replaced"),
    (Known.OTHER,    State.DELAYED, "replaced"),
    (Known.OTHER,    State.LOCKED,  Refusal.ITEM_LOCKED),
    (Known.OTHER,    State.DEAD,    Refusal.ITEM_EXISTS),
]
# fmt: on


@pytest.mark.parametrize(("known", "state", "end"), TABLE)
def test_existing_items_are_treated_as_by_a_publish(known, state, end):
    decision = ask(tally(WinnerCount(known, state, 4, ItemId("a7"))))
    if isinstance(end, Refusal):
        reply = refused(decision)
        assert reply.refusal is end
        assert reply.reason.startswith("item a7 is ")
        assert reply.reason.endswith("(node jobs); and 3 more")
        return
    counts = {"replaced": 0, "left": 0} | {end: 4}
    outcome = CommittedNode(JOBS, queueing=True, added=6, **counts)
    reply = Committed(1, 10 - counts["left"], counts["left"], already=False)
    assert decision == Decision(reply, (change(outcome),))


@pytest.mark.parametrize(("known", "state", "_end"), TABLE)
def test_in_a_plain_node_everything_is_overwritten(known, state, _end):
    decision = ask(tally(WinnerCount(known, state, 4, ItemId("a7")), node=plain()))
    outcome = CommittedNode(JOBS, queueing=False, added=6, replaced=4, left=0)
    assert decision == Decision(Committed(1, 10, 0, already=False), (change(outcome),))


def test_rows_that_a_later_one_supersedes_are_no_more_than_known():
    outcome = CommittedNode(JOBS, queueing=True, added=7, replaced=0, left=3)
    decision = ask(tally(rows=10, ids=7))
    assert decision == Decision(Committed(1, 7, 3, already=False), (change(outcome),))


@pytest.mark.parametrize(
    ("items", "met", "fits"), [(0, 0, True), (1, 0, False), (4, 4, True), (5, 4, False)]
)
def test_a_node_has_to_have_room_for_what_is_added(items, met, fits):
    found = [WinnerCount(Known.SAME, State.QUEUED, met, ItemId("a"))] if met else []
    decision = ask(tally(*found, node=queue(items=items, max_items=10)))
    assert (decision.changes != ()) == fits
    if not fits:
        assert refused(decision) == Refused(Refusal.NODE_FULL, limit=10)


def test_one_node_that_refuses_refuses_for_all():
    locked = WinnerCount(Known.OTHER, State.LOCKED, 1, ItemId("x"))
    second = tally(locked, node=queue(name="more"), rows=0, ids=0)
    assert refused(ask(tally(), second)).refusal is Refusal.ITEM_LOCKED


LOCKED = WinnerCount(Known.OTHER, State.LOCKED, 1, ItemId("x"))
DEAD = WinnerCount(Known.OTHER, State.DEAD, 2, ItemId("y"))
NAMES = (
    TakenId(JOBS, ItemId("x"), State.LOCKED),
    TakenId(JOBS, ItemId("y"), State.DEAD),
    TakenId(JOBS, ItemId("z"), State.DEAD),
)


def test_ids_that_are_taken_are_named_in_the_refusal():
    elsewhere = tally(LOCKED, node=queue(name="more"), rows=1, ids=1)
    reply = refused(ask(tally(LOCKED, DEAD, taken=NAMES), elsewhere))
    assert reply.refusal is Refusal.ITEM_EXISTS
    assert reply.reason == (
        "item x is in flight (node jobs);"
        " items y, z are dead here, to be redriven or retracted (node jobs);"
        " item x is in flight (node more)"
    )


def test_no_more_are_named_than_there_is_room_for():
    many = tuple(TakenId(JOBS, ItemId(f"n{n}"), State.DEAD) for n in range(20))
    found = WinnerCount(Known.OTHER, State.DEAD, 900, ItemId("n0"))
    reply = refused(ask(tally(found, taken=many, rows=900, ids=900), tally(LOCKED)))
    assert reply.reason.endswith(
        "n19 are dead here, to be redriven or retracted (node jobs); and 881 more"
    )


def test_winners_whose_ids_are_taken_may_be_left_out():
    facts = tally(LOCKED, DEAD, taken=NAMES)
    decision = ask(facts, on_taken=OnTaken.SKIP)
    outcome = CommittedNode(JOBS, queueing=True, added=7, replaced=0, left=0)
    totals = Totals(4, 2, 0.5)
    kept = Commit(APP, Jid("etl@x"), 1, NOW, (outcome,), 7, 99, totals)
    reply = Committed(1, 7, 0, already=False, taken=3, named=NAMES)
    assert decision == Decision(reply, (SetAside(None, NOW), kept))
    assert ask(tally(), on_taken=OnTaken.SKIP) == ask(tally())


BAD = NodeName("bad")


def letters(**more):
    return {"dead_letters": tally(node=queue(name="bad", **more), rows=0, ids=0)}


def test_or_they_go_to_a_dead_letter_node():
    asked = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": BAD}
    decision = ask(tally(LOCKED, DEAD, taken=NAMES), **asked, **letters())
    outcomes = (
        CommittedNode(JOBS, queueing=True, added=7, replaced=0, left=0),
        CommittedNode(BAD, queueing=True, added=3, replaced=0, left=0),
    )
    kept = Commit(APP, Jid("etl@x"), 1, NOW, outcomes, 10, 99, Totals(1, 5, 0.5))
    reply = Committed(1, 7, 0, already=False, taken=3, named=NAMES)
    assert decision == Decision(reply, (SetAside(BAD, NOW), kept))


def test_which_may_have_winners_of_its_own():
    asked = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": BAD}
    own = tally(node=queue(name="bad"), rows=4, ids=4)
    decision = ask(own, tally(LOCKED, rows=6, ids=6), **asked, **letters())
    assert [(it.node, it.added) for it in decision.changes[1].nodes] == [(JOBS, 5), (BAD, 5)]


@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        ({}, Refusal.NODE_NOT_FOUND),
        ({"dead_letters": tally(node=plain())}, Refusal.NOT_A_QUEUE),
        (letters(publish_paused=True), Refusal.PUBLISH_PAUSED),
        (letters(items=8, max_items=10), Refusal.NODE_FULL),
    ],
)
def test_which_has_to_take_them(place, refusal):
    asked = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": BAD}
    assert refused(ask(tally(LOCKED, DEAD), **asked, **place)).refusal is refusal
    assert ask(tally(), **asked, **place).changes  # nobody asks for it where nothing is taken


def test_conditions_that_may_have_changed_are_checked_again():
    gone = CommitNodeFacts(
        NodeName("jobs"), None, Affiliation.NONE, subscribed=False, rows=10, ids=10
    )
    assert refused(ask(gone)).refusal is Refusal.NODE_NOT_FOUND
    assert refused(ask(tally(affiliation=Affiliation.NONE))).refusal is Refusal.FORBIDDEN
    paused = tally(node=queue(publish_paused=True))
    assert refused(ask(paused)).refusal is Refusal.PUBLISH_PAUSED
    assert ask(tally(node=queue(max_payload_size=1))).changes != ()


def test_subscribers_of_a_plain_node_are_notified():
    drafts = draft("a"), draft("b")
    facts = tally(node=plain(), rows=2, ids=2, audience=(ANN, BOB), drafts=drafts)
    decision = ask(facts, items=2)
    by = Jid("etl@x")
    assert decision.notices == (
        ToEach((ANN, BOB), Announce(NOBODY, JOBS, drafts[0], by), FLEETING),
        ToEach((ANN, BOB), Announce(NOBODY, JOBS, drafts[1], by), FLEETING),
    )


@pytest.mark.parametrize("named", [9, 11, 0])
def test_an_attempt_has_to_have_what_it_is_named_with(named):
    request = CommitVersion(who(ETL), APP, 1, (Part(0, 3, 10), Part(5, 4, named)))
    facts = CommitFacts(
        NOW, OWN, OpenVersion(immediate=False, items=20, bytes=0), None, {(0, 3): 10, (5, 4): 10}
    )
    assert refused(commit(request, facts)) == Refused(
        Refusal.NOT_AS_STAGED,
        f"part 5 is named with {named} items of attempt 4, and 10 are staged",
    )


def test_a_commit_without_parts_is_no_way_to_lose_what_is_staged():
    facts = CommitFacts(NOW, OWN, OpenVersion(immediate=False, items=2, bytes=0), None, {(0, 0): 2})
    assert refused(commit(commits(), facts)).refusal is Refusal.NOT_AS_STAGED
    nothing = commit(commits(), CommitFacts(NOW, OWN))
    assert nothing.reply == Committed(1, 0, 0, already=False)


def test_a_committed_version_stays_as_it_is():
    app = App(APP, Jid("etl@x"), 1, NOW)
    record = Record(7, APP, Jid("etl@x"), 1, NOW, NOW, 10, 99)
    assert ask(app=app, open=None, record=record) == Decision(Committed(1, 10, 0, already=True))
    newer = App(APP, Jid("etl@x"), 9, NOW)
    assert ask(app=newer, open=None) == Decision(Committed(1, 0, 0, already=True))


def test_a_commit_is_the_owner_s_alone():
    assert refused(ask(app=App(APP, Jid("boss@x")))).refusal is Refusal.FORBIDDEN


def test_an_immediate_version_is_only_closed():
    decision = ask(open=OpenVersion(immediate=True, items=10, bytes=99), noted=(10, 3))
    assert decision == Decision(Committed(1, 7, 3, already=False), (change(),))
