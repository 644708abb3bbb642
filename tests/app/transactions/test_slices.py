"""Commits that are too large for one batch: in slices, between which anything may happen, the end of the process too."""

import pytest
from harness.asks import joins, publishes, retracts
from harness.facts import ANN, BOSS, ETL, JOBS, who
from harness.shell import Shell
from harness.transactions import (
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

from pubqueue.app.facts import moving
from pubqueue.core.decision import Announce, Done, Refusal, Retracted
from pubqueue.core.model import ItemId, Jid
from pubqueue.core.nodes.manage import Configure, Create, Delete
from pubqueue.core.nodes.nodeconfig import Settings
from pubqueue.core.nodes.subscribe import Subscribe
from pubqueue.core.transactions.commit import LookAtWinners
from pubqueue.core.transactions.moving import MoveWinners, ResumeMoves

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
    """Go on up to the first slice of that kind; return it."""
    while not isinstance(request, kind):
        request = shell.batch(request).decisions[0].then
    return request


def test_they_do_what_small_ones_do(shell):
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


def test_what_has_come_in_the_way_of_a_committed_winner_is_withdrawn(shell):
    shell.do(joins(ANN))
    stage_all(shell)
    request = until(shell, commits(*WINNERS), MoveWinners)
    shell.do(publishes("b1", payload=b"<other/>"))  # goes to Ann
    told = []
    while request is not None:
        done = shell.batch(request)
        told += done.decisions[0].notices
        request = done.decisions[0].then
    assert told == [Retracted(ANN, JOBS, (ItemId("b1"),))]
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


def test_of_winners_under_one_id_the_last_counts(shell):
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
    (notice,) = decision.notices
    assert isinstance(notice, Announce)
    assert (notice.to, notice.draft.id, notice.publisher) == (ANN, "a", Jid("etl@x"))
    assert ids(shell, NEWS) == [("x", "old"), ("a", "job")]


def test_a_slice_is_short_by_its_payloads_too(shell, monkeypatch):
    monkeypatch.setattr(moving, "SLICE", 100)
    monkeypatch.setattr(moving, "ROOM", 10)
    stage_all(shell)
    request = until(shell, commits(*WINNERS), MoveWinners)
    shell.batch(request)
    assert (names(shell), names(shell, MORE)) == (["a1"], ["a2"])
