"""Commits that are too large for one batch go in slices, between which anything may happen, even the end of the process."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import (
    APP,
    MORE,
    NEWS,
    commits,
    committed,
    ids,
    in_slices,
    left_over,
    names,
    refusal,
    stages,
    sweep,
)

from pubqueue.engine.facts import transactions
from pubqueue.engine.listings import RecordOf
from pubqueue.model.decision import Done, Refusal
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.model.notices import Announce, Retracted, singly
from pubqueue.model.transactions import Committed, OnTaken, TakenId, Totals
from pubqueue.rules.commit import LookAtWinners
from pubqueue.rules.expire import Expire
from pubqueue.rules.moving import MoveWinners, ResumeMoves
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete
from pubqueue.rules.subscribe import Subscribe

WINNERS = (0, 4, 2), (1, 5, 2)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    in_slices(monkeypatch)


def stage_all(shell):
    shell.do(stages("b1", "b2", part=1, attempt=5))
    shell.do(stages("lost", part=0, attempt=3))
    shell.do(stages("a1", part=0, attempt=4))
    shell.do(stages("a2", part=0, attempt=4, node=MORE))


def until(shell, request, kind):
    """Continue up to the first slice of that kind; return it."""
    while not isinstance(request, kind):
        request = shell.batch(request).decisions[0].then
    return request


def test_sliced_commits_have_the_result_of_small_ones(shell):
    stage_all(shell)
    assert shell.do(commits(*WINNERS)) == committed(4)
    assert (names(shell), names(shell, MORE)) == (["a1", "b1", "b2"], ["a2"])
    assert shell.do(commits(*WINNERS)) == committed(4, already=True)
    sweep(shell)
    assert left_over(shell) == 0


@pytest.mark.parametrize("slices", range(5))
def test_after_a_kill_between_any_two_slices_all_are_moved(tmp_path, shell, slices):
    stage_all(shell)
    request = until(shell, commits(*WINNERS), MoveWinners)
    for _ in range(slices):
        request = shell.batch(request).decisions[0].then
    assert len(names(shell) + names(shell, MORE)) == slices
    again = Shell(tmp_path / "queue.db")
    assert again.do(commits(*WINNERS)) == committed(4, already=True)
    assert again.do(ResumeMoves()) == Done()
    assert (names(again), names(again, MORE)) == (["a1", "b1", "b2"], ["a2"])
    sweep(again)
    assert left_over(again) == 0
    again.close()


def test_after_a_kill_before_the_commit_nothing_is_seen_and_it_can_be_committed(tmp_path, shell):
    stage_all(shell)
    request = until(shell, commits(*WINNERS), LookAtWinners)
    for _ in range(4):
        request = shell.batch(request).decisions[0].then
        assert isinstance(request, LookAtWinners)
    again = Shell(tmp_path / "queue.db")
    assert again.do(ResumeMoves()) == Done()
    assert names(again) + names(again, MORE) == []
    assert again.do(commits(*WINNERS)) == committed(4)
    again.close()


def test_a_refusal_leaves_everything_staged(shell):
    shell.do(joins(ANN))
    shell.do(publishes("b2"))
    stage_all(shell)
    shell.do(stages("b2", part=1, attempt=5, payload=b"<other/>"))
    before = shell.dump()
    assert refusal(shell.do(commits(*WINNERS))) is Refusal.ITEM_LOCKED
    assert shell.dump() == before
    shell.do(retracts(ANN, "b2"))
    assert shell.do(commits(*WINNERS)) == committed(4)


def test_an_item_in_the_place_of_a_committed_winner_is_withdrawn(shell):
    shell.do(joins(ANN))
    stage_all(shell)
    request = until(shell, commits(*WINNERS), MoveWinners)
    shell.do(publishes("b1", payload=b"<other/>"))  # goes to Ann
    reported = []
    while request is not None:
        done = shell.batch(request)
        reported += done.decisions[0].notices
        request = done.decisions[0].then
    assert reported == [Retracted(ANN, JOBS, (ItemId("b1"),))]
    assert ids(shell)[-2:] == [("b1", "job"), ("b2", "job")]


def test_the_same_that_came_meanwhile_stays(shell):
    stage_all(shell)
    request = until(shell, commits(*WINNERS), MoveWinners)
    shell.do(publishes("b1"))
    assert shell.do(request) == committed(4)
    assert names(shell) == ["b1", "a1", "b2"]


def test_a_node_that_has_gone_meanwhile_gets_nothing(shell):
    stage_all(shell)
    request = until(shell, commits(*WINNERS), MoveWinners)
    shell.do(Delete(who(BOSS), MORE))
    assert shell.do(request) == committed(4)
    assert names(shell) == ["a1", "b1", "b2"]
    sweep(shell)
    assert left_over(shell) == 0


def test_a_node_that_is_no_more_or_full_refuses_all(shell):
    stage_all(shell)
    shell.do(Configure(who(BOSS), JOBS, Settings({"max_items": 2})))
    assert refusal(shell.do(commits(*WINNERS))) is Refusal.NODE_FULL
    shell.do(Configure(who(BOSS), JOBS, Settings({"max_items": 3})))
    shell.do(Delete(who(BOSS), MORE))
    assert refusal(shell.do(commits(*WINNERS))) is Refusal.NODE_NOT_FOUND


def test_the_last_of_several_winners_with_one_id_counts(shell):
    shell.do(stages("a", "b"))
    shell.do(stages("a", part=1, payload=b"<last/>"))
    assert shell.do(commits((0, 0, 2), (1, 0, 1))) == committed(2, known=1)
    assert ids(shell) == [("b", "job"), ("a", "last")]


def test_a_plain_node_has_its_items_overwritten_and_announced(shell):
    shell.do(Create(who(ETL), NEWS, Settings({})))
    shell.do(Subscribe(who(ANN), NEWS, ANN, "s"))
    shell.do(publishes("a", "x", node=NEWS, payload=b"<old/>"))
    shell.do(stages("a", node=NEWS))
    request = until(shell, commits((0, 0, 1)), MoveWinners)
    decision = shell.batch(request).decisions[0]
    (notice,) = singly(decision.notices)
    assert isinstance(notice, Announce)
    assert (notice.to, notice.draft.id, notice.publisher) == (ANN, "a", Jid("etl@x"))
    assert ids(shell, NEWS) == [("x", "old"), ("a", "job")]


def test_a_slice_is_short_by_its_payloads_too(shell, monkeypatch):
    monkeypatch.setattr(transactions, "SLICE", 100)
    monkeypatch.setattr(transactions, "ROOM", 10)
    stage_all(shell)
    request = until(shell, commits(*WINNERS), MoveWinners)
    shell.batch(request)
    assert (names(shell), names(shell, MORE)) == (["a1"], ["a2"])


# --- ids that are taken ------------------------------------------------------------------------------

TRIAL = NodeName("trial")
PARTS = (0, 0, 1), (1, 0, 3)


def taken_ids(shell):
    """Make `dead` and `locked` in a node, and stage them with other payloads between `new` and `last`."""
    shell.do(a_queue(TRIAL, max_failures=1, lock_timeout=10))
    shell.do(publishes("dead", node=TRIAL))
    shell.do(joins(ANN, 1, node=TRIAL))
    shell.wait(11)
    assert shell.do(Expire()) == Done()
    shell.do(publishes("locked", node=TRIAL))
    for name, part in (("new", 0), ("dead", 1), ("locked", 1), ("last", 1)):
        shell.do(stages(name, node=TRIAL, part=part, payload=b"<x/>"))


TAKEN = (
    TakenId(TRIAL, ItemId("dead"), State.DEAD),
    TakenId(TRIAL, ItemId("locked"), State.LOCKED),
)
KEPT = {"dead": "job", "locked": "job", "new": "x", "last": "x"}
DEAD_LETTER = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": MORE}


def record(shell):
    (found,) = shell.look(lambda tx: tx.page(RecordOf(APP, 1)))
    return found.items, found.totals.skipped, found.totals.dead_lettered


def test_a_refusal_names_the_ids_that_are_taken(shell):
    taken_ids(shell)
    before = shell.dump()
    reply = shell.do(commits(*PARTS))
    assert reply.refusal is Refusal.ITEM_EXISTS
    assert reply.reason == (
        "item dead is dead here, to be redriven or retracted (node trial);"
        " item locked is in flight (node trial)"
    )
    assert shell.dump() == before


def test_a_refusal_names_no_more_ids_than_have_room(shell):
    shell.do(joins(ANN, 30))
    there = [f"i{number:02}" for number in range(25)]
    shell.do(publishes(*there))
    shell.do(stages(*there, "new", payload=b"<x/>"))
    reply = shell.do(commits((0, 0, 26)))
    assert reply.reason == f"items {', '.join(there[:20])} are in flight (node jobs); and 5 more"
    left = shell.do(commits((0, 0, 26), on_taken=OnTaken.SKIP))
    assert (left.published, left.taken, [it.id for it in left.named]) == (1, 25, there[:20])


@pytest.mark.parametrize("slices", [None, *range(4)])
@pytest.mark.parametrize("place", [None, MORE])
def test_items_with_taken_ids_are_moved_despite_kills(tmp_path, shell, slices, place):
    taken_ids(shell)
    asked = {"on_taken": OnTaken.SKIP} if place is None else DEAD_LETTER
    at, again = shell.now, shell
    if slices is None:
        reply = shell.do(commits(*PARTS, totals=Totals(1, 2), **asked))
        assert reply == Committed(1, 2, 0, already=False, taken=2, named=TAKEN)
    else:
        request = until(shell, commits(*PARTS, totals=Totals(1, 2), **asked), MoveWinners)
        for _ in range(slices):
            request = shell.batch(request).decisions[0].then
        again = Shell(tmp_path / "queue.db")
        again.now = shell.now
        assert again.do(ResumeMoves()) == Done()
    assert dict(ids(again, TRIAL)) == KEPT
    elsewhere = [] if place is None else [(f"trial/{n}.{at}", "x") for n in ("dead", "locked")]
    assert ids(again, MORE) == elsewhere
    assert record(again) == ((2, 3, 2) if place is None else (4, 1, 4))
    sweep(again)
    assert left_over(again) == 0
    if again is not shell:
        again.close()


def test_an_id_that_is_free_in_its_slice_is_not_moved(shell):
    taken_ids(shell)
    request = until(shell, commits(*PARTS, on_taken=OnTaken.SKIP), MoveWinners)
    shell.do(retracts(ANN, "locked", node=TRIAL))
    assert shell.do(request) == Committed(1, 3, 0, already=False, taken=1, named=TAKEN[:1])
    assert dict(ids(shell, TRIAL)) == KEPT | {"locked": "x"}
    assert record(shell) == (3, 1, None)


def test_a_dead_letter_node_that_is_not_there_leaves_all_as_it_was(shell):
    taken_ids(shell)
    shell.do(Configure(who(BOSS), MORE, Settings({"max_items": 1})))
    before = shell.dump()
    for place, expected in ((NodeName("no"), Refusal.NODE_NOT_FOUND), (MORE, Refusal.NODE_FULL)):
        asked = DEAD_LETTER | {"dead_letter_node": place}
        assert refusal(shell.do(commits(*PARTS, **asked))) is expected
    assert shell.dump() == before


def test_without_a_dead_letter_node_any_more_a_committed_winner_takes_its_id(shell):
    taken_ids(shell)
    request = until(shell, commits(*PARTS, **DEAD_LETTER), MoveWinners)
    shell.do(Delete(who(BOSS), MORE))
    assert shell.do(request) == committed(4)
    assert dict(ids(shell, TRIAL)) == dict.fromkeys(KEPT, "x")


def test_a_dead_letter_whose_id_is_there_has_another(shell):
    taken_ids(shell)
    shell.do(publishes(f"trial/dead.{shell.now}", node=MORE))
    assert shell.do(commits(*PARTS, **DEAD_LETTER)).taken == 2
    at = shell.now
    expected = [f"trial/dead.{at}", f"trial/dead.{at}.{APP}.1.1.0", f"trial/locked.{at}"]
    assert names(shell, MORE) == expected
