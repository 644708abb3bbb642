"""The tasks beside the broker record their rounds; a task that stalls is noticed, by the test's clock."""

import asyncio
from functools import partial
from unittest import mock

import pytest
from harness.batches.facts import BOSS, NOW, who
from harness.batches.witness import WatchedFace, WatchedStore
from harness.patience import turns, until
from msgspec.structs import replace
from prometheus_client import generate_latest

from pubqueue.cli import doctor
from pubqueue.engine import reaper
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.observe import Phase
from pubqueue.engine.reaper import OtherProcesses, Reaper
from pubqueue.engine.task import Upkeep
from pubqueue.monitor import gauges
from pubqueue.monitor.server import Health, given
from pubqueue.operations.service import SERVICE
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.inspect import AskService
from pubqueue.stores import store_at

KEPT = ("nodes_limit", "items_limit", "bytes_limit", "near")
TASKS = sorted([reaper.TASK, reaper.LEASE, reaper.LOOK])


class Seconds:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self):
        return self.now


class Held(WatchedStore):
    """A store that does not answer for a while; `under_way` are the waiting calls."""

    def __init__(self, store):
        super().__init__(store, [])
        self.answers = asyncio.Event()
        self.answers.set()
        self.under_way = set()
        self.instances = self

    async def answered(self, call):
        self.under_way.add(call)
        await self.answers.wait()
        self.under_way.discard(call)

    async def batch(self, job):
        await self.answered("batch")
        return await super().batch(job)

    async def changes(self):
        await self.answered("changes")
        return await super().changes()

    async def renew(self):
        await self.answered("renew")

    async def abandoned(self):
        return []

    async def wait_for_change(self, _patience):
        await turns()

    async def falls_silent(self):
        """Wait until all tasks wait for it."""
        self.answers.clear()
        await until(lambda: self.under_way == {"batch", "changes", "renew"})


@pytest.fixture
async def service(monkeypatch):
    for name in ("MAX_SLEEP", "PROCESSES_PERIOD", "GAP"):
        monkeypatch.setattr(reaper, name, 0.001)
    inner = store_at("memory:")
    await inner.open()
    store = Held(inner)
    watcher = Reaper(clock=lambda: NOW)
    clock = Seconds()
    monkeypatch.setattr("pubqueue.engine.broker.Upkeep", partial(Upkeep, clock))
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
    )
    WatchedFace(broker, []).up()
    broker.start()
    others = OtherProcesses(store)
    watcher.start(broker)
    others.start(broker)
    yield broker, store, clock
    store.answers.set()
    await watcher.stop()
    await others.stop()
    await broker.stop()
    await inner.close()


def late(broker):
    return sorted(one.task for one in broker.upkeep.rounds() if one.late)


async def test_a_task_that_has_not_come_round_for_long_is_late_until_it_does(service):
    broker, store, clock = service
    health = Health()
    health.phase, health.is_connected, health.rounds = (
        Phase.AT_WORK,
        lambda: True,
        broker.upkeep.rounds,
    )
    assert sorted(one.task for one in broker.upkeep.rounds()) == TASKS
    await store.falls_silent()
    clock.now = 61.0
    assert late(broker) == [reaper.LEASE, reaper.LOOK]
    clock.now = 91.0
    assert late(broker) == TASKS
    found = health.readiness(None)
    assert (found.ready, len(found.why_not)) == (False, 3)
    assert "reaper: not come round for 91 s" in found.why_not
    text = generate_latest(given(gauges.of_upkeep(broker.upkeep))).decode()
    assert 'pubqueue_task_late{task="reaper"} 1.0' in text
    assert 'pubqueue_task_round_age_seconds{task="reaper"} 91.0' in text
    store.answers.set()
    await until(lambda: not late(broker))
    assert health.readiness(None).why_not == ()


async def test_a_stalled_task_is_named_in_the_status_of_the_service(service):
    broker, store, clock = service
    reply = await broker.handle(AskService(replace(who(BOSS), admin=True)))
    assert not any(one.late for one in reply.rounds)
    await store.falls_silent()
    clock.now = 91.0
    reply = await broker.handle(AskService(replace(who(BOSS), admin=True)))
    assert sorted(one.task for one in reply.rounds if one.late) == TASKS
    (row,) = SERVICE.answer(reply, {}).rows
    (late,) = (at for at, column in enumerate(SERVICE.columns) if column.name == "late")
    assert sorted(row[late]) == TASKS


@pytest.mark.parametrize(
    ("late", "level"),
    [({"late": ("reaper", "lease")}, "bad"), ({"late": ()}, "good"), ({}, "good")],
)
async def test_a_doctor_names_what_stands_still(late, level):
    row = {"version": "1", "uptime": None, "nodes": 1, "store": "memory:"} | late
    row |= {"clock_ahead": None, "limits": (), **dict.fromkeys(KEPT, 0), "nearest": ()}
    link = mock.Mock(perform=mock.AsyncMock(return_value=mock.Mock(rows=(row,), now=None, note="")))
    found, *_ = [one async for one in doctor.service(link)]
    assert found.level.name.lower() == level
    assert ("reaper, lease made no progress in time" in found.says) == (level == "bad")
