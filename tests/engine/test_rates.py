"""Rates: a queue delivers up to its rate to all workers, and continues by itself when it may."""

import asyncio
from time import monotonic

import pytest
from engine.test_reaper import Notes
from harness.batches.facts import ANN, BOSS, JOBS, NOW, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.batches.witness import WatchedFace
from harness.patience import TIMEOUT

from pubqueue.engine.batch import run
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.reaper import Reaper
from pubqueue.model.entities import Millis, NodeName
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.stores.sqlite import SqliteStore

NAMES = "abcdefghij"


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.batch(a_queue(rate=2))
    yield shell
    shell.close()


def handed(shell, *requests, **how):
    done = shell.batch(*requests, **how)
    return "".join(one.item.id for one in done.deliveries)


def test_the_rate_limits_deliveries_per_second(shell):
    shell.batch(publishes(*NAMES))
    done = shell.batch(joins(ANN, 99))
    assert [one.item.id for one in done.deliveries] == ["a", "b"]
    assert done.soonest == after(0.5)
    assert handed(shell, publishes("x")) == ""
    shell.wait(0.5)
    assert handed(shell, Expire()) == "c"
    shell.wait(1.2)
    assert handed(shell, Expire()) == "de"
    shell.wait(60)
    assert handed(shell, Expire()) == "fg"


def test_no_wakeup_happens_without_items_or_workers(shell):
    shell.batch(publishes(*"ab"), joins(ANN, 2))
    shell.wait(0.5)
    done = shell.batch(Expire())
    assert done.soonest == after(300)  # the locks
    shell.batch(publishes(*"cd"))
    assert shell.batch(Expire()).soonest == after(300)


def test_a_rate_that_is_raised_or_taken_away_holds_at_once(shell):
    shell.batch(publishes(*NAMES), joins(ANN, 99))
    assert handed(shell, Configure(who(BOSS), JOBS, Settings({"rate": ""}))) == "cdefghij"


def test_a_rate_that_is_set_holds_from_then_on(shell):
    other = NodeName("other")
    shell.batch(a_queue(other), joins(ANN, 99, node=other))
    assert handed(shell, publishes(*"abc", node=other)) == "abc"
    shell.batch(Configure(who(BOSS), other, Settings({"rate": "1"})))
    assert handed(shell, publishes(*"de", node=other)) == "d"


def test_released_items_are_delivered_again_at_the_rate(shell):
    shell.batch(publishes("a"), joins(ANN, 9))
    assert handed(shell, retracts(ANN, "a"), publishes("b")) == "b"
    assert handed(shell, retracts(ANN, "b"), publishes("c")) == ""


def test_other_queues_go_on(shell):
    other = NodeName("other")
    shell.batch(a_queue(other), joins(ANN, 99, node=other), joins(ANN, 99))
    both = publishes(*"abc"), publishes(*"xyz", node=other)
    assert sorted(handed(shell, *both)) == ["a", "b", "x", "y", "z"]


@pytest.fixture(params=["sqlite", "postgres"])
def processes(request, tmp_path):
    """Two processes on one store."""
    makes = {"sqlite": Shell, "postgres": PostgresShell}
    place = tmp_path / "shared.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    both = makes[request.param](place), makes[request.param](place)
    yield both
    for one in both:
        one.close()


def test_the_rate_holds_after_a_kill_and_for_all_processes(processes):
    shell, other = processes
    shell.batch(a_queue(rate=2))
    shell.batch(publishes(*NAMES))
    assert handed(shell, joins(ANN, 99)) == "ab"
    done = other.batch(everywhere=True)
    assert (done.deliveries, done.soonest) == ((), after(0.5))
    other.wait(0.5)
    shell.wait(0.5)
    assert handed(other, Expire()) == "c"
    assert handed(shell, Expire()) == ""
    shell.wait(0.5)
    assert handed(shell, Expire()) == "d"


def test_groups_keep_to_it_too(shell):
    shell.batch(joins(ANN, 99))
    assert handed(shell, publishes(*"ab", group="g"), publishes(*"cd", group="h")) == "ac"
    assert handed(shell, retracts(ANN, "a")) == ""
    shell.wait(0.5)
    assert handed(shell, Expire()) == "b"


def test_a_failed_batch_forgets_no_waiting_request(shell):
    shell.batch(publishes(*NAMES), joins(ANN, 99))
    shell.wait(0.5)

    def in_vain(tx):
        shell.rows.begin(tx)
        shell.changes.begin(shell.now, foreign=tx.foreign)
        run(shell.context(), shell.changes, tx, [Expire()], dispatching=True, everywhere=False)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError):
        shell.transact(in_vain)
    shell.changes.forget()
    other = NodeName("other")  # which has nothing to do with it
    assert handed(shell, a_queue(other)) == "c"


def test_a_queue_without_a_rate_writes_nothing_for_it(shell):
    shell.batch(a_queue(NodeName("free")), joins(ANN, 9, node=NodeName("free")))
    said = []
    shell.connection.set_trace_callback(said.append)
    shell.batch(publishes("a", node=NodeName("free")))
    shell.connection.set_trace_callback(None)
    assert not any("spent" in text and "UPDATE" in text for text in said)
    assert not any("group_name" in text.split("WHERE")[0] and "UPDATE" in text for text in said)


async def test_the_reaper_wakes_when_the_next_may_go(tmp_path):
    store, log = SqliteStore(tmp_path / "queue.db"), Notes()
    await store.open()
    began = monotonic()

    def clock():
        return Millis(NOW + round((monotonic() - began) * 1000))

    reaper = Reaper(clock=clock)
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=clock,
        on_moment=reaper.on_moment,
    )
    face = WatchedFace(broker, log)
    broker.start()
    face.up()
    reaper.start(broker)
    try:
        for request in (a_queue(rate=20), joins(ANN, 99), publishes(*(f"i{n}" for n in range(30)))):
            await broker.handle(request)
        async with asyncio.timeout(TIMEOUT):
            while sum(isinstance(entry, Deliver) for entry in log) < 30:
                log.grown.clear()
                await log.grown.wait()
        assert monotonic() - began >= 0.5
    finally:
        await reaper.stop()
        await broker.stop()
        await store.close()
