"""The reaper does due work at the clock's time."""

import asyncio
import sqlite3
import time
from dataclasses import dataclass
from itertools import count

import pytest
from harness.batches.facts import ANN, JOBS, NOW, after
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.witness import WatchedFace, WatchedStore
from harness.patience import TIMEOUT, turns, until
from harness.stores.rows import needs_of
from harness.stores.store_reader import StoreReader
from structlog.testing import capture_logs

from pubqueue.engine import reaper as reaper_module
from pubqueue.engine import table
from pubqueue.engine.broker import Broker
from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.context import Terms
from pubqueue.engine.facts import queue
from pubqueue.engine.reaper import Reaper
from pubqueue.engine.rows import FINISHED
from pubqueue.model.changes import Release
from pubqueue.model.entities import ItemId, Millis, NodeName, seconds
from pubqueue.model.notices import Unlocked
from pubqueue.rules import ahead, expire
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.read import Trim
from pubqueue.rules.unlock import Recover
from pubqueue.stores.sql import transaction
from pubqueue.stores.sqlite import SqliteStore

LATE = after(10_000)
OTHER = NodeName("other")


@dataclass
class Time:
    """A clock that a test sets."""

    now: Millis = NOW
    since: float | None = None
    """When it began to run, if it does."""

    def __call__(self):
        if self.since is None:
            return self.now
        return Millis(self.now + round((time.monotonic() - self.since) * 1000))

    def run(self):
        """Advance the clock."""
        self.since = time.monotonic()


class Notes(list):
    """A list that can be waited on."""

    def __init__(self):
        super().__init__()
        self.grown = asyncio.Event()

    def append(self, entry):
        super().append(entry)
        self.grown.set()

    def extend(self, entries):
        super().extend(entries)
        self.grown.set()

    async def until(self, entry):
        async with asyncio.timeout(TIMEOUT):
            while entry not in self:
                self.grown.clear()
                await self.grown.wait()


@dataclass
class Stage:
    broker: Broker
    reaper: Reaper
    store: WatchedStore
    clock: Time
    log: Notes

    async def do(self, *requests):
        for request in requests:
            await self.broker.handle(request)

    async def log_ends(self, oldest):
        """Return the ends of the event log, once it starts there."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                self.log.grown.clear()
                ends = await self.store.read(lambda tx: StoreReader(tx).log_ends())
                if ends[0] == oldest:
                    return ends
                await self.log.grown.wait()

    def watch_finished(self, node, names):
        """Return a list of how many of these ids are remembered as done, extended after each batch that changes it."""
        keys = {(node, ItemId(name)) for name in names}
        batch, counts, last = self.store.batch, [], [len(keys)]

        async def watched(job):
            done = await batch(job)
            rows = await self.store.read(lambda tx: tx.load(needs_of(finished=keys)))
            if len(rows.of[FINISHED]) != last[0]:
                last[0] = len(rows.of[FINISHED])
                counts.append(last[0])
            if counts and not last[0]:
                self.log.append("nothing is remembered")
            return done

        self.store.batch = watched
        return counts

    async def item(self, name, node=JOBS):
        return await self.store.batch(lambda tx: StoreReader(tx).item(node, ItemId(name)))


@pytest.fixture
async def stage(tmp_path):
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    clock, log = Time(), Notes()
    watched = WatchedStore(store, log)
    reaper = Reaper(clock=clock)
    broker = Broker(
        watched,
        Terms(CreationPolicy.ANYONE),
        clock=clock,
        on_moment=reaper.on_moment,
    )
    face = WatchedFace(broker, log)
    broker.start()
    face.up()
    stage = Stage(broker, reaper, watched, clock, log)
    await stage.do(a_queue(lock_timeout=60), joins(ANN, 9))
    yield stage
    await reaper.stop()
    await broker.stop()
    await store.close()


def unlocked(name):
    return Unlocked(ANN, JOBS, (ItemId(name),))


async def test_expiries_while_the_service_was_down_are_processed_at_the_start(stage):
    await stage.do(publishes("a"))
    stage.clock.now = LATE
    stage.reaper.start(stage.broker)
    await stage.log.until(unlocked("a"))


async def test_a_moment_that_has_come_is_not_waited_for(stage):
    stage.reaper.start(stage.broker)
    await stage.broker.settled()
    await stage.do(publishes("a"))
    stage.clock.now = LATE
    stage.reaper.on_moment(Millis(LATE - 1))  # another moment wakes the reaper
    await stage.log.until(unlocked("a"))


async def test_a_pause_ends_by_itself(stage):
    stage.clock.run()
    stage.reaper.start(stage.broker)
    await stage.do(publishes("a", delay=0.02))
    async with asyncio.timeout(TIMEOUT):
        while (await stage.item("a")).holder is None:
            stage.log.grown.clear()
            await stage.log.grown.wait()
    assert stage.clock() - NOW >= 20


async def test_no_lock_ends_early(stage):
    stage.reaper.start(stage.broker)
    await stage.do(publishes("a"))
    stage.clock.now = after(59.999)
    await stage.do(publishes("soon", delay=1), retracts(ANN, "soon"))
    await stage.broker.settled()
    assert unlocked("a") not in stage.log


async def test_a_clock_set_back_ends_nothing(stage):
    stage.reaper.start(stage.broker)
    await stage.do(publishes("a"))
    stage.clock.now = after(-10_000)
    await stage.do(publishes("b"))
    await stage.broker.settled()
    assert (await stage.item("a")).holder == ANN


async def test_a_clock_set_back_makes_no_lock_last_longer_than_a_new_one(stage):
    stage.reaper.start(stage.broker)
    await stage.do(publishes("a"))
    stage.clock.now = after(-10_000)
    await stage.do(publishes("soon", delay=1))  # a nearer moment wakes the reaper
    async with asyncio.timeout(TIMEOUT):
        while (await stage.item("a")).deadline != after(-10_000 + 60):
            stage.log.grown.clear()
    stage.clock.now = after(-10_000 + 60)
    await stage.do(publishes("sooner", delay=0.5))
    await stage.log.until(unlocked("a"))


@pytest.mark.parametrize("older", [0, 2], ids=["", "among items of the right clock"])
async def test_a_delay_from_a_clock_that_was_ahead_begins_anew_at_the_start(
    stage, older, monkeypatch
):
    monkeypatch.setattr(queue, "AT_ONCE", 2)
    await stage.do(*(publishes(f"old{n}", delay=1000 + n) for n in range(older)))
    stage.clock.now = LATE
    await stage.do(publishes("a", delay=5), publishes("b", delay=40_000), publishes("c", delay=1))
    stage.clock.now = after(1)
    stage.reaper.start(stage.broker)
    async with asyncio.timeout(TIMEOUT):
        while (await stage.item("a")).published != after(1):
            stage.log.grown.clear()
            await stage.log.grown.wait()
    await stage.broker.settled()
    times = [(await stage.item(name)).due for name in "abc"]
    assert times == [after(6), after(40_001), after(2)]
    assert [(await stage.item(f"old{n}")).due for n in range(older)] == [
        after(1000 + n) for n in range(older)
    ]
    stage.clock.now = after(6)
    stage.reaper.on_moment(after(6))
    async with asyncio.timeout(TIMEOUT):
        while (await stage.item("a")).holder != ANN:
            stage.log.grown.clear()
            await stage.log.grown.wait()


async def test_nor_does_an_item_live_longer_than_a_new_one_however_many_came_since(
    stage, monkeypatch
):
    monkeypatch.setattr(queue, "AT_ONCE", 2)
    await stage.do(a_queue(OTHER, item_expire=60))
    stage.clock.now = LATE
    await stage.do(publishes("a", node=OTHER))
    assert (await stage.item("a", OTHER)).expires == Millis(LATE + 60_000)
    stage.clock.now = after(1)
    await stage.do(*(publishes(f"new{n}") for n in range(6)))
    await stage.do(Recover())
    await stage.broker.settled()
    assert (await stage.item("a", OTHER)).expires == after(61)


async def test_a_store_that_fails_is_tried_again(stage, monkeypatch):
    monkeypatch.setattr(reaper_module, "RETRY", 0.001)
    await stage.do(publishes("a"))
    stage.reaper.start(stage.broker)
    await stage.broker.settled()
    stage.clock.now = LATE
    stage.store.failures = 3
    stage.reaper.on_moment(None)
    stage.reaper.on_moment(after(60))
    await stage.log.until(unlocked("a"))
    assert stage.log.count("failure") == 3


async def test_an_error_does_not_stop_lock_expiry(stage, monkeypatch):
    monkeypatch.setattr(reaper_module, "RETRY", 0.001)
    handle, faults = stage.broker.handle, [ZeroDivisionError(), KeyError()]

    async def fails_at_first(request):
        if faults:
            raise faults.pop()
        return await handle(request)

    await stage.do(publishes("a"))
    stage.clock.now = LATE
    monkeypatch.setattr(stage.broker, "handle", fails_at_first)
    with capture_logs() as said:
        stage.reaper.start(stage.broker)
        await stage.log.until(unlocked("a"))
    assert [entry["event"] for entry in said].count("reaper.failed") == 2


async def test_a_recovery_that_meets_a_fault_of_ours_holds_up_no_expiry(stage, monkeypatch):
    def broken(*_anything):
        raise ZeroDivisionError

    monkeypatch.setattr(reaper_module, "RETRY", 0.001)
    monkeypatch.setitem(table.RULES, Recover, table.Rule(broken, broken, None))
    await stage.do(publishes("a"))
    stage.clock.now = LATE
    stage.reaper.start(stage.broker)
    await stage.log.until(unlocked("a"))


ODD = ItemId("odd")


def odd_in_deciding(monkeypatch):
    decide = ahead.fail

    def fail(case, *given):
        if case.item.id == ODD:
            raise ZeroDivisionError
        return decide(case, *given)

    monkeypatch.setattr(ahead, "fail", fail)


def odd_in_changing(monkeypatch):
    make = ChangeApplier.MAKE[Release]

    def item(self, asked, change):
        if change.item.id == ODD and isinstance(asked, expire.Expire):
            raise ZeroDivisionError
        make(self, asked, change)

    monkeypatch.setattr(ChangeApplier, "_item", item)
    makers = ChangeApplier.MAKE
    for kind, call in makers.items():
        if call is make:
            monkeypatch.setitem(makers, kind, item)


def odd_in_the_store(monkeypatch):
    write = transaction.write

    def guarded(session, writes):
        if any(one.before is not None and one.before.id == ODD for one in writes.items):
            raise sqlite3.IntegrityError("CHECK constraint failed")
        write(session, writes)

    monkeypatch.setattr(transaction, "write", guarded)


@pytest.mark.parametrize("odd", [odd_in_deciding, odd_in_changing, odd_in_the_store])
async def test_one_row_that_cannot_be_ended_keeps_no_other_lock_from_ending(
    stage, monkeypatch, odd
):
    names = ["a", "b", "c", ODD, "d", "e", "f"]
    await stage.do(*map(publishes, names))
    stage.clock.now = LATE
    monkeypatch.setattr(reaper_module, "RETRY", 0.001)
    with capture_logs() as said, monkeypatch.context() as patched:
        odd(patched)
        stage.reaper.start(stage.broker)
        for name in names:
            if name != ODD:
                await stage.log.until(unlocked(name))
        await until(lambda: any(one["event"] == "overdue.set_aside" for one in said))
        (reported,) = [one for one in said if one["event"] == "overdue.set_aside"]
        assert (reported["kind"], reported["of"], reported["name"]) == ("item", JOBS, ODD)
        await stage.do(publishes("later"))
        stage.clock.now = Millis(LATE + 61_000)
        await stage.log.until(unlocked("later"))
        assert [one["event"] for one in said].count("overdue.set_aside") == 1
        assert unlocked(ODD) not in stage.log
    stage.clock.now = Millis(LATE + 3_700_000)  # it has been mended since
    stage.reaper.on_moment(None)
    stage.reaper.on_moment(LATE)
    await stage.log.until(unlocked(ODD))


async def test_a_row_that_cannot_be_read_keeps_no_other_lock_from_ending(stage, monkeypatch):
    damage = "UPDATE item SET failure = x'ff00' WHERE id = 'odd'"
    names = ["a", "b", ODD, "d"]
    monkeypatch.setattr(queue, "AT_ONCE", 1)  # it is the first of its slice again and again
    await stage.do(*map(publishes, names))
    connection = stage.store.inner.connection.raw
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(damage.replace("x'ff00'", "CAST(x'ff00' AS TEXT)"))
    connection.execute("UPDATE item SET deadline = deadline - 1 WHERE id = 'odd'")
    stage.broker.committer.rows.cache.forget()
    stage.clock.now = LATE
    monkeypatch.setattr(reaper_module, "RETRY", 0.001)
    with capture_logs() as said:
        stage.reaper.start(stage.broker)
        for name in names:
            if name != ODD:
                await stage.log.until(unlocked(name))
    aside = [one for one in said if one["event"] == "overdue.set_aside"]
    assert [(one["kind"], one["of"], one["name"]) for one in aside] == [("item", JOBS, ODD)]
    assert "secret" not in repr(said)
    assert stage.broker.upkeep.aside() == 1


async def test_a_full_disk_sets_nothing_aside(stage, monkeypatch):
    monkeypatch.setattr(reaper_module, "RETRY", 0.001)
    await stage.do(publishes("a"), publishes("b"))
    stage.clock.now = LATE
    stage.store.failures = 20
    with capture_logs() as said:
        stage.reaper.start(stage.broker)
        await stage.log.until(unlocked("b"))
    assert "overdue.set_aside" not in {one["event"] for one in said}


async def test_old_ids_are_forgotten_in_steps_that_follow_by_themselves(stage, monkeypatch):
    monkeypatch.setattr(expire, "FORGOTTEN", 2)
    names = [f"i{number}" for number in range(7)]
    await stage.do(a_queue(OTHER, dedup_window=60), joins(ANN, 9, node=OTHER))
    await stage.do(publishes(*names, node=OTHER), retracts(ANN, *names, node=OTHER))
    counts = stage.watch_finished(OTHER, names)
    stage.clock.now = after(61)
    stage.reaper.start(stage.broker)
    await stage.log.until("nothing is remembered")
    assert counts == [5, 3, 1, 0]


async def test_old_ids_are_forgotten_whatever_news_there_is(stage):
    await stage.do(a_queue(OTHER, dedup_window=60), joins(ANN, 9, node=OTHER))
    await stage.do(publishes("a", node=OTHER), retracts(ANN, "a", node=OTHER))
    counts = stage.watch_finished(OTHER, ["a"])
    stage.reaper.start(stage.broker)
    await until(lambda: stage.reaper.expired == NOW)
    await stage.broker.settled()
    assert counts == []
    stage.clock.now = after(61)
    moments = map(after, count(3600))
    await until(lambda: stage.reaper.on_moment(next(moments)) or counts == [0])
    assert counts == [0]


async def test_starting_and_stopping_twice_do_no_harm(stage):
    stage.reaper.start(stage.broker)
    stage.reaper.start(stage.broker)
    await stage.reaper.stop()
    await stage.reaper.stop()


async def test_the_reaper_stops_while_the_store_is_blocked(stage):
    stage.store.hold()
    stage.reaper.start(stage.broker)
    await stage.store.asked.wait()
    await asyncio.wait_for(stage.reaper.stop(), TIMEOUT)
    stage.store.may_go.set()


@pytest.mark.parametrize("passed", range(4))
async def test_the_reaper_stops_even_if_it_is_woken_at_that_moment(stage, passed):
    stage.reaper.start(stage.broker)
    await stage.broker.settled()
    await turns(9)  # until it waits for news
    stage.reaper.on_moment(after(60))
    await turns(passed)
    stopping = asyncio.create_task(stage.reaper.stop())
    done, _ = await asyncio.wait({stopping}, timeout=TIMEOUT)
    assert done == {stopping}


async def test_the_event_log_is_trimmed_at_the_start_and_while_time_passes(stage):
    stage.reaper.adopt(Trim(kept_for=seconds(60), kept=2))
    await stage.do(a_queue(OTHER, event_log=1), publishes("a", "b", "c", node=OTHER))
    stage.clock.now = after(30)
    await stage.do(publishes("d", node=OTHER))
    stage.reaper.start(stage.broker)
    assert await stage.log_ends(oldest=3) == (3, 4)
    stage.clock.now = after(95)
    stage.reaper.on_moment(after(94))
    assert await stage.log_ends(oldest=4) == (4, 4)
