"""Running schedules: woken at their times, retried while a node refuses, and published by one of several processes."""

import asyncio
import threading
from collections import Counter

import pytest
from harness.batches.facts import BOSS, JOBS, who
from harness.batches.queue_requests import a_queue
from harness.batches.witness import WatchedFace
from harness.patience import TIMEOUT, until
from msgspec.structs import replace
from structlog.testing import capture_logs

from pubqueue.config.nodes import bring_schedules
from pubqueue.config.settings import ScheduleSettings
from pubqueue.engine import cron_times, reaper, table
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.listings import Items
from pubqueue.engine.observe import Observer
from pubqueue.engine.reaper import Reaper
from pubqueue.faces.checks import ConfigError
from pubqueue.model.decision import Done, Expired, Refused
from pubqueue.model.entities import Jid, Millis, Principal
from pubqueue.model.schedules import Fired
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.dispatch import in_line
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete
from pubqueue.rules.schedules import FireNow, FireSchedule, ListSchedules, PauseSchedule
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

MINUTE = 60_000
BEGIN = Millis(1_795_316_400_000 - 10_000)  # ten seconds before three in the night
SERVICE = Principal(Jid("queue.example"), admin=True)
ADMIN = who(BOSS, admin=True)
EACH_MINUTE = ScheduleSettings("tick", "* * * * *", JOBS, json={"tick": True})


class Process(Observer):
    """An instance with a store of its own in the same memory; `clock` is a list with the time."""

    def __init__(self, memory, clock):
        self.store = MemoryStore(memory)
        self.reaper = Reaper(clock=lambda: clock[0])
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: clock[0],
            on_moment=self.reaper.on_moment,
            service=SERVICE,
            observers=[self],
        )
        self.commits = asyncio.Queue()
        WatchedFace(self.broker, []).up()

    def committed(self, *_batch):
        self.commits.put_nowait(None)

    async def start(self):
        await self.store.open()
        self.broker.start()

    async def stop(self):
        await self.reaper.stop()
        await self.broker.stop()
        await self.store.close()

    async def ids(self):
        rows = await self.store.read(lambda tx: tx.page(Items(JOBS), None, 999))
        return [item.id for item, _ in rows]

    async def schedule(self, name="tick"):
        page = await self.broker.handle(ListSchedules(ADMIN, name=name))
        return None if isinstance(page, Refused) else page.schedules[0]

    async def turn(self, name="tick"):
        reply = await reaper.turn(name, self.broker.handle)
        assert isinstance(reply, Fired)
        return reply

    async def until(self, holds):
        """Wait until the condition is true, which is checked after each batch."""
        async with asyncio.timeout(TIMEOUT):
            while not await holds():
                await self.commits.get()


@pytest.fixture
def clock():
    return [BEGIN]


@pytest.fixture
async def process(clock):
    process = Process(Memory(), clock)
    await process.start()
    await process.broker.handle(a_queue())
    yield process
    await process.stop()


async def bring(process, *schedules):
    await bring_schedules(process.broker, schedules, SERVICE)


async def test_expiries_and_due_schedules_are_one_request(process, clock):
    await bring(process, EACH_MINUTE)
    assert await process.broker.handle(Expire()) == Done()
    clock[0] = Millis(BEGIN + 10_000)
    assert await process.broker.handle(Expire()) == Expired(schedules=("tick",))
    rows = frozenset({("item", str(JOBS), "a")})
    assert await process.broker.handle(Expire(only=rows)) == Done()


async def test_a_row_that_cannot_be_ended_keeps_no_schedule_from_its_turn(
    process, clock, monkeypatch
):
    row = table.RULES[Expire]

    def facts_fail_for_rows(context, request):
        if request.only is None:
            raise ZeroDivisionError
        return row.facts(context, request)

    monkeypatch.setitem(table.RULES, Expire, row._replace(facts=facts_fail_for_rows))
    monkeypatch.setattr(reaper, "RETRY", 0.001)
    await bring(process, EACH_MINUTE)
    clock[0] = Millis(BEGIN + 10_000)
    process.reaper.start(process.broker)
    await process.until(lambda: _has(process, 1))


async def test_the_task_wakes_at_the_time_of_a_schedule(process, clock):
    await bring(process, EACH_MINUTE)
    process.reaper.start(process.broker)
    await process.broker.settled()
    assert (await process.schedule()).due == BEGIN + 10_000
    assert await process.ids() == []
    clock[0] = Millis(BEGIN + 10_000)
    process.reaper.on_moment(Millis(BEGIN + 9_999))  # another moment wakes the reaper
    await process.until(lambda: _has(process, 1))
    assert await process.ids() == ["tick@2026-11-22T03:00:00Z"]
    schedule = await process.schedule()
    assert (schedule.last, schedule.due) == (BEGIN + 10_000, BEGIN + 10_000 + MINUTE)


async def _has(process, count):
    return len(await process.ids()) == count


async def test_times_without_a_running_service_are_fired_at_the_start(process, clock):
    await bring(process, EACH_MINUTE)
    clock[0] = Millis(BEGIN + 10_000 + 7 * MINUTE)
    process.reaper.start(process.broker)
    await process.until(lambda: _has(process, 1))
    assert await process.ids() == ["tick@2026-11-22T03:07:00Z"]


@pytest.mark.parametrize(
    ("missed", "minutes"), [("once", [3]), ("all", [0, 1, 2, 3]), ("skip", [3])]
)
async def test_missed_times_are_made_up_for_by_the_rule(process, clock, missed, minutes):
    await bring(process, ScheduleSettings("tick", "* * * * *", JOBS, json=1, missed=missed))
    clock[0] = Millis(BEGIN + 10_000 + 3 * MINUTE)
    process.reaper.start(process.broker)
    await process.until(lambda: _has(process, len(minutes)))
    assert await process.ids() == [f"tick@2026-11-22T03:0{minute}:00Z" for minute in minutes]
    assert (await process.turn()).id is None


async def test_items_of_a_group_come_one_after_the_other(process, clock):
    what = ScheduleSettings("tick", "* * * * *", JOBS, json=1, missed="all", group="of one")
    await bring(process, what)
    clock[0] = Millis(BEGIN + 10_000 + MINUTE)
    assert [(await process.turn()).id is None for _ in range(3)] == [False, False, True]
    rows = await process.store.read(lambda tx: tx.page(Items(JOBS), None, 9))
    assert [(item.group, in_line(item)) for item, _ in rows] == [
        ("of one", False),
        ("of one", True),
    ]


async def test_only_the_last_hundred_missed_times_are_fired(process, clock):
    await bring(process, ScheduleSettings("tick", "* * * * *", JOBS, json=1, missed="all"))
    clock[0] = Millis(BEGIN + 10_000 + 150 * MINUTE)
    with capture_logs() as logs:
        process.reaper.start(process.broker)
        await process.until(lambda: _has(process, 100))
        await process.broker.settled()
    found = await process.ids()
    assert (found[0], found[-1]) == ("tick@2026-11-22T03:51:00Z", "tick@2026-11-22T05:30:00Z")
    assert [one for one in logs if one["event"] == "schedule.missed"] == [
        {"event": "schedule.missed", "log_level": "warning", "schedule": "tick"}
    ]


async def test_a_clock_that_is_set_back_fires_nothing_again(process, clock):
    await bring(process, EACH_MINUTE)
    clock[0] = Millis(BEGIN + 10_000 + 5 * MINUTE)
    assert (await process.turn()).id == "tick@2026-11-22T03:05:00Z"
    for back in (3, 5, 100):
        clock[0] = Millis(BEGIN + 10_000 + (5 - back) * MINUTE)
        assert (await process.turn()).id is None
        await bring(process, EACH_MINUTE)
        assert (await process.turn()).id is None
    clock[0] = Millis(BEGIN + 10_000 + 6 * MINUTE)
    assert (await process.turn()).id == "tick@2026-11-22T03:06:00Z"


async def test_a_node_that_refuses_is_retried_and_reported_once(process, clock):
    await bring(process, EACH_MINUTE)
    closed = Settings({"publish_paused": True})
    await process.broker.handle(Configure(ADMIN, JOBS, closed))
    clock[0] = Millis(BEGIN + 10_000)
    process.reaper.start(process.broker)
    with capture_logs() as logs:
        for tries, pause in enumerate((1, 2, 4), 1):
            await process.until(lambda tries=tries: _tried(process, tries))
            schedule = await process.schedule()
            assert schedule.due == clock[0] + pause * 1000
            clock[0] = schedule.due
            process.reaper.on_moment(Millis(clock[0] - 1))
        await process.until(lambda: _tried(process, 4))
        await process.broker.handle(Configure(ADMIN, JOBS, Settings({"publish_paused": False})))
        clock[0] = (await process.schedule()).due
        process.reaper.on_moment(Millis(clock[0] - 1))
        await process.until(lambda: _has(process, 1))
        await until(lambda: logs[-1]["event"] == "schedule.fired")  # in the turns that follow
    assert await process.ids() == ["tick@2026-11-22T03:00:00Z"]
    assert [one["event"] for one in logs if one["event"].startswith("schedule.")] == [
        "schedule.refused",
        "schedule.fired",
    ]
    schedule = await process.schedule()
    assert (schedule.error, schedule.tries) == ("", 0)


async def _tried(process, tries, name="tick"):
    return (await process.schedule(name)).tries == tries


async def test_a_node_that_is_gone_is_waited_for(process, clock):
    await bring(process, EACH_MINUTE)
    await process.broker.handle(Delete(ADMIN, JOBS))
    clock[0] = Millis(BEGIN + 10_000)
    assert await process.turn() == Fired("tick", error="node not found", first=True)
    await process.broker.handle(a_queue())
    clock[0] = (await process.schedule()).due
    assert (await process.turn()).id == "tick@2026-11-22T03:00:00Z"


async def test_schedules_follow_the_configuration_file(process):
    other = ScheduleSettings("other", "0 3 * * *", JOBS, payload="<job xmlns='urn:x'/>")
    with capture_logs() as logs:
        await bring(process, EACH_MINUTE)
        await bring(process, other)
    assert (await process.schedule(), (await process.schedule("other")).name) == (None, "other")
    reported = [(one["event"], one["schedule"]) for one in logs]
    assert reported == [
        ("schedule.made", "tick"),
        ("schedule.made", "other"),
        ("schedule.ended", "tick"),
    ]


async def test_an_invalid_schedule_changes_nothing(process):
    await bring(process, EACH_MINUTE)
    with pytest.raises(ConfigError, match="schedule 'bad': cron '1' must have five fields"):
        await bring(process, ScheduleSettings("bad", "1", JOBS, json=1))
    assert (await process.schedule()).name == "tick"


async def test_a_pause_is_the_end_of_its_times_until_it_is_resumed(process, clock):
    await bring(process, EACH_MINUTE)
    await process.broker.handle(PauseSchedule(ADMIN, "tick", paused=True))
    clock[0] = Millis(BEGIN + 5 * MINUTE)
    assert (await process.turn()).id is None
    await process.broker.handle(PauseSchedule(ADMIN, "tick", paused=False))
    assert (await process.turn()).id is None
    clock[0] = Millis(clock[0] + MINUTE)
    assert (await process.turn()).id == "tick@2026-11-22T03:05:00Z"


async def test_an_administrator_can_fire_a_schedule_at_once(process):
    await bring(process, EACH_MINUTE)
    reply = await process.broker.handle(FireNow(ADMIN, "tick"))
    assert reply == Fired("tick", "tick@2026-11-22T02:59:50Z")
    assert await process.ids() == [reply.id]
    assert isinstance(await process.broker.handle(FireNow(who("etl@x"), "tick")), Refused)


async def test_a_calendar_that_fails_puts_off_its_schedule_alone(process, clock, monkeypatch):
    def following(cron, zone, after):
        if zone == "Pacific/Chatham":
            raise ZeroDivisionError
        return plain(cron, zone, after)

    plain = cron_times.following
    odd = ScheduleSettings("odd", "* * * * *", JOBS, zone="Pacific/Chatham", json=1)
    await bring(process, EACH_MINUTE, odd)
    monkeypatch.setattr(cron_times, "following", following)
    clock[0] = Millis(BEGIN + 10_000)
    process.reaper.start(process.broker)
    with capture_logs() as logs:
        await process.until(lambda: _has(process, 1))
        await process.until(lambda: _tried(process, 1, "odd"))
    assert await process.ids() == ["tick@2026-11-22T03:00:00Z"]
    odd = await process.schedule("odd")
    assert (odd.error, odd.due) == ("its times could not be computed", clock[0] + 1000)
    assert [one["schedule"] for one in logs if one["event"] == "schedule.calendar_failed"] == [
        "odd"
    ]


async def test_a_calendar_that_hangs_holds_up_no_batch(process, clock, monkeypatch):
    monkeypatch.setattr(reaper, "TIMEOUT", 0.01)
    gate, plain = threading.Event(), reaper.worked_out

    def hangs(wanted):
        gate.wait(TIMEOUT)
        return plain(wanted)

    await bring(process, EACH_MINUTE)
    monkeypatch.setattr(reaper, "worked_out", hangs)
    clock[0] = Millis(BEGIN + 10_000)
    process.reaper.start(process.broker)
    try:
        await process.until(lambda: _tried(process, 1))
        assert not isinstance(await process.broker.handle(FireNow(ADMIN, "tick")), Refused)
    finally:
        gate.set()


async def test_times_worked_out_for_another_revision_are_not_used(process, clock):
    await bring(process, EACH_MINUTE)
    clock[0] = Millis(BEGIN + 10_000)
    wanted = await process.broker.handle(FireSchedule("tick"))
    times = reaper.worked_out(wanted)
    assert (await process.turn()).id == "tick@2026-11-22T03:00:00Z"
    clock[0] = Millis(clock[0] + MINUTE)
    again = await process.broker.handle(FireSchedule("tick", times))
    assert again == replace(wanted, after=wanted.until, until=clock[0], revision=again.revision)
    assert again.revision != wanted.revision


async def test_one_of_several_processes_fires_each_time(clock):
    memory = Memory()
    processes = [Process(memory, clock) for _ in range(3)]
    for process in processes:
        await process.start()
    await processes[0].broker.handle(a_queue())
    await bring(processes[0], EACH_MINUTE)
    fired = Counter()
    for minute in range(20):
        clock[0] = Millis(BEGIN + 10_000 + minute * MINUTE)
        for reply in await asyncio.gather(*(one.turn() for one in processes)):
            fired[reply.id] += 1
    del fired[None]
    assert set(fired.values()) == {1}
    assert list(fired) == await processes[0].ids()
    assert len(fired) == 20
    for process in processes:
        await process.stop()
