"""No endless loops, and no silent worker stops the others: the queue over simulated hours."""

from collections import Counter

from harness.batches.facts import ANN, BOB, EVE, JOBS
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks

from pubqueue.model.entities import ItemId, State
from pubqueue.rules.expire import MAX_TIMEOUTS, Expire
from pubqueue.rules.settle import Outcome

HOUR = 3600
TIMEOUT = 60


class Hours:
    """A queue, and workers that answer each delivery as the test defines, while time passes second by second."""

    def __init__(self, shell, answer):
        self._shell = shell
        self._answer = answer
        self.given = Counter()
        self.when = {}

    def pass_by(self, seconds, *first):
        deliveries = list(self._shell.batch(*first).deliveries)
        for second in range(seconds):
            while deliveries:
                one = deliveries.pop(0)
                self.given[one.item.id] += 1
                self.when.setdefault(one.item.id, []).append(second)
                if (request := self._answer(one)) is not None:
                    deliveries += self._shell.batch(request).deliveries
            self._shell.wait(1)
            deliveries += self._shell.batch(Expire()).deliveries

    def item(self, name):
        return self._shell.look(lambda tx: tx.item(JOBS, ItemId(name)))


def fails_on_poison(one):
    if one.item.id == "poison":
        return unlocks(one.to, "poison", outcome=Outcome.FAILED)
    return retracts(one.to, one.item.id)


def test_a_poison_item_comes_ever_more_slowly_and_then_is_dead(shell):
    shell.batch(a_queue(max_failures=10, lock_timeout=TIMEOUT), *map(joins, (ANN, BOB, EVE)))
    hours = Hours(shell, fails_on_poison)
    hours.pass_by(HOUR // 6, publishes("poison", *(f"good{n}" for n in range(50))))
    assert hours.given["poison"] == 10
    gaps = [b - a for a, b in zip(hours.when["poison"], hours.when["poison"][1:], strict=False)]
    assert gaps == sorted(gaps)
    assert 60 <= gaps[-1] <= 66  # with its jitter
    assert hours.item("poison").state is State.DEAD
    assert all(hours.item(f"good{n}") is None for n in range(50))


def test_an_item_that_everybody_unlocks_is_no_hot_loop_either(shell):
    shell.batch(a_queue(lock_timeout=TIMEOUT), *map(joins, (ANN, BOB, EVE)))
    hours = Hours(shell, lambda one: unlocks(one.to, one.item.id))
    hours.pass_by(HOUR // 2, publishes("unwanted"))
    assert hours.given["unwanted"] < 3 + 6 + HOUR // 2 // 60 + 1
    assert hours.item("unwanted").failed == 0


def test_a_worker_that_only_stalls_is_no_hot_loop(shell):
    shell.batch(a_queue(lock_timeout=TIMEOUT, max_failures=5), joins(ANN))
    hours = Hours(shell, lambda _one: None)
    hours.pass_by(HOUR // 4, publishes("a"))
    assert hours.given["a"] == 1 + MAX_TIMEOUTS + 1
    hours.pass_by(HOUR // 4, joins(BOB))
    assert hours.given["a"] == 5
    assert hours.item("a").state is State.DEAD


def test_a_dead_worker_beside_a_living_one_costs_some_timeouts_and_no_more(shell):
    shell.batch(a_queue(lock_timeout=TIMEOUT), joins(ANN), joins(BOB))
    hours = Hours(shell, lambda one: None if one.to == ANN else retracts(one.to, one.item.id))
    for n in range(40):
        hours.pass_by(TIMEOUT + 2, publishes(f"i{n}"))
    waited = [n for n in range(40) if hours.given[f"i{n}"] > 1]
    assert len(waited) == 1 + MAX_TIMEOUTS + 1


def test_a_stalled_worker_costs_one_lock_timeout_and_nothing_else(shell):
    names = [f"i{n}" for n in range(200)]
    shell.batch(a_queue(lock_timeout=TIMEOUT), joins(ANN, 10), joins(BOB, 1))
    hours = Hours(shell, lambda one: None if one.to == ANN else retracts(one.to, one.item.id))
    hours.pass_by(TIMEOUT + 2, publishes(*names))
    stalled = [name for name in names if hours.given[name] > 1]
    assert len(stalled) == 10
    assert all(hours.when[name] == [0, TIMEOUT] for name in stalled)
    assert all(hours.item(name) is None for name in names)
