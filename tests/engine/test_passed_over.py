"""Expired items that the reaper has not removed yet are skipped: a limited number in a batch, and each once."""

import pytest
from harness.batches.facts import ANN, BOB, JOBS
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell

from pubqueue.engine import dispatch
from pubqueue.model.entities import ItemId
from pubqueue.model.notices import Deliver
from pubqueue.rules.presence import Leave

SMALL, LARGE = 300, 3_000
A_BIT = 600
"""Instructions of SQLite that a deeper index may cost."""


@pytest.fixture
def other(tmp_path, shell):
    """Another process on the same file."""
    other = Shell(tmp_path / "queue.db")
    other.unreachable = {ANN, BOB}
    yield other
    other.close()


@pytest.fixture
def few(monkeypatch):
    """Let a batch skip no more than two items."""
    monkeypatch.setattr(dispatch, "PASSED_OVER", 2)
    monkeypatch.setattr(dispatch, "FEWEST", 2)


def lay(shell, count, *behind):
    """Publish items that are already expired, and others after them."""
    shell.batch(a_queue())
    shell.batch(publishes(*(f"old{number}" for number in range(count)), ttl=1))
    if behind:
        shell.batch(publishes(*behind, ttl=3600))
    shell.wait(2)


def handed(shell, *requests):
    """Run the requests, then batches until nothing is left; return the deliveries of each."""
    done = shell.batch(*requests)
    said = [names(done)]
    while done.rest:
        done = shell.batch(rest=done.rest)
        said.append(names(done))
    return said


def flat(batches):
    return [name for batch in batches for name in batch]


def names(done):
    return [one.item.id for one in done.deliveries if isinstance(one, Deliver)]


def test_items_behind_skipped_ones_are_delivered_in_one_of_the_next_batches(shell, few):
    lay(shell, 9, "a", "b")
    said = handed(shell, joins(ANN, 1))
    assert said[-1] == ["a"]
    assert said[:-1] == [[]] * 3  # three places at a time: two, and the one that there is room for


def test_skipped_items_are_not_examined_again(shell, few):
    lay(shell, 9, "a", "b")
    handed(shell, joins(ANN, 1))
    assert handed(shell, retracts(ANN, "a")) == [["b"]]


def test_items_skipped_in_front_of_a_live_one_are_not_examined_again(shell, few, monkeypatch):
    lay(shell, 10, "a", "b", "c")
    handed(shell, joins(ANN, 1))
    handed(shell, retracts(ANN, "a"))
    monkeypatch.setattr(dispatch, "PASSED_OVER", 1)
    monkeypatch.setattr(dispatch, "FEWEST", 1)
    assert handed(shell, retracts(ANN, "b")) == [["c"]]


def test_an_item_that_becomes_free_in_front_is_found(shell, few):
    shell.batch(a_queue(), joins(ANN, 1), publishes("first"))
    lay(shell, 9, "a")
    handed(shell, joins(BOB, 1))
    assert handed(shell, Leave(ANN)) == [[]]
    said = handed(shell, retracts(BOB, "a"))
    assert flat(said) == ["first"]


def test_a_later_more_urgent_item_is_found_in_front(shell, few):
    lay(shell, 9, "a")
    handed(shell, joins(ANN, 1))
    shell.batch(publishes("urgent", priority=5), publishes("b"))
    said = handed(shell, retracts(ANN, "a"))
    assert flat(said) == ["urgent"]


def test_a_clock_that_is_set_back_finds_what_lives_again(shell, few):
    lay(shell, 9, "a")
    handed(shell, joins(ANN, 1))
    shell.wait(-2)
    said = handed(shell, retracts(ANN, "a"))
    assert flat(said) == ["old0"]


def test_a_restart_looks_again(shell, few):
    lay(shell, 9, "a", "b")
    handed(shell, joins(ANN, 1))
    shell.rows.cache.forget()
    said = handed(shell, retracts(ANN, "a"))
    assert flat(said) == ["b"]


def test_a_look_around_ends_although_others_write(shell, other, few):
    lay(shell, 9, "a")
    done, said = shell.batch(joins(ANN, 1)), []
    for turn in range(9):
        other.batch(publishes(f"x{turn}"))
        done = shell.batch(rest=done.rest)
        said += names(done)
    assert said == ["a"]


def test_an_item_that_another_process_frees_in_front_is_found_by_the_next_look(shell, other, few):
    shell.batch(a_queue(), joins(ANN, 1), publishes("first"))
    lay(shell, 9)
    done = shell.batch(joins(BOB, 1))
    other.now, other.unreachable = shell.now, {ANN, BOB}
    other.batch(Leave(ANN))
    said = names(shell.batch(rest=done.rest))
    for _ in range(9):
        said += names(shell.batch(everywhere=True))
    assert said == ["first"]


def test_when_all_are_too_old_the_looking_ends(shell, few):
    lay(shell, 9)
    assert handed(shell, joins(ANN, 1)) == [[]] * 4
    assert JOBS in shell.rows.cache.idle
    assert handed(shell, publishes("a")) == [["a"]]


def test_each_batch_costs_the_same_however_many_are_too_old(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "PASSED_OVER", 100)
    costs = []
    for size in (SMALL, LARGE):
        shell = Shell(tmp_path / f"{size}.db")
        lay(shell, size, *(f"i{number}" for number in range(9)))
        steps = [0]
        shell.connection.set_progress_handler(lambda steps=steps: steps.append(1), 1)
        rest, deepest = (), 0
        for request in [joins(ANN, 1), *(retracts(ANN, ItemId(f"i{n}")) for n in range(9))]:
            asked = [request]
            while asked or rest:
                steps.clear()
                rest = shell.batch(*asked, rest=rest).rest
                deepest, asked = max(deepest, len(steps)), []
        costs.append(deepest)
        shell.close()
    assert costs[1] <= costs[0] + A_BIT, costs
