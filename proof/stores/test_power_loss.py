"""The power fails while the store works: whatever the disk then holds, the store opens, whole, with all
that was confirmed, and with nothing of a batch but all of it."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest
from harness.batches.facts import ETL, JOBS, NOW, after, draft, queue, who, window
from harness.batches.queue_requests import a_queue, publishes, retracts
from harness.databases.power_loss import Image, images
from harness.databases.recording_vfs import Confirmed, Recorder, Sync, Write
from msgspec.structs import replace
from stores.steps import ENOUGH, add, do, release

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.listings import Winners
from pubqueue.engine.ports import ForeignStoreError
from pubqueue.model import after as afterwards
from pubqueue.model import changes
from pubqueue.model.decision import DoneTogether
from pubqueue.model.entities import Affiliation, Jid, Millis, NodeName, State, digest
from pubqueue.model.records import PublishKey
from pubqueue.model.replies import Declared
from pubqueue.model.transactions import Commit, CommittedNode, Mark, Stage, StagedItem, Totals
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.together import Together
from pubqueue.stores.sqlite import SqliteStore

OWNER = Jid("etl@x")
WORKERS = [Jid(f"bee{n}@x/1") for n in range(3)]
CONFIG = queue(name=JOBS, event_log=True).config
WHAT = ("AddItem", "RemoveItem", "ConfigureNode", "Lock", "Stage", "Commit")
FRAME = 24 + 4096
"""Bytes in which SQLite's WAL writes a page."""


@pytest.fixture
def recorder():
    with Recorder() as recorder:
        yield recorder


def dump(connection):
    """Return every row of every table, and what SQLite itself finds wrong."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    rows = {
        name: sorted(map(repr, connection.execute(f"SELECT * FROM {name}"))) for (name,) in tables
    }
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return rows


@asynccontextmanager
async def opened(path):
    store = SqliteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Load:
    """Batches as busy publishers and workers cause them; `states` is the store after each."""

    def __init__(self, recorder, seed=1):
        self._events = recorder.events
        self._random = Random(seed)
        self._token = 0
        self._published = 0
        self._held = []
        self.states = []
        self.done = Counter()

    async def look(self, store):
        self.states.append(await store.connection.run(dump))

    async def batch(self, store, job):
        """Run the job in one batch, and take note once it is confirmed."""
        await store.batch(job)
        self._events.append(Confirmed(len(self.states)))
        await self.look(store)

    async def begin(self, store):
        """Make a queue with its workers."""
        node = changes.CreateNode(queue(name=JOBS, subscriptions=0, event_log=True))
        people = changes.SetAffiliation(JOBS, Jid("etl@x"), Affiliation.PUBLISHER)
        await self.batch(store, lambda tx: do(tx, node, people))
        come = [changes.AddSubscription(window(jid, 4)) for jid in WORKERS]
        await self.batch(store, lambda tx: do(tx, *come))

    async def work(self, store, batches):
        for number in range(batches):
            await self.batch(store, partial(self._work, number))

    def _work(self, number, tx):
        for change in (*self._publishes(), *self._settles(), *self._odds(number), *self._stages()):
            self.done[type(change).__name__] += 1
            do(tx, change)
        self._commit(tx)
        self._lock(tx)

    def _publishes(self):
        for _ in range(self._random.randrange(1, 3)):
            self._published += 1
            size = self._random.choice((10, 300, 5000))  # the largest takes pages of its own
            yield add(f"i{self._published}", payload=b"<job>" + b"x" * size + b"</job>")

    def _stages(self):
        """Stage an item, and commit every third with those before it."""
        version = self.done["Stage"] // 3
        row = StagedItem(draft(f"v{self.done['Stage']}"), State.QUEUED, None, None, 6)
        yield Stage(Mark("nightly", version), OWNER, JOBS, (row,), NOW, after(60))

    def _commit(self, tx):
        version, before = divmod(self.done["Stage"] - 1, 3)
        if before == 2:
            assert tx.page(Winners("nightly", version, ((0, 0),)), None, 9)[0].rows == 3
            outcomes = (CommittedNode(JOBS, queueing=True, added=3, replaced=0, left=0),)
            do(tx, Commit("nightly", OWNER, version, NOW, outcomes, 3, 18, Totals()))
            self.done["Commit"] += 1

    def _settles(self):
        for _ in range(self._random.randrange(3)):
            if self._held:
                item = self._held.pop(self._random.randrange(len(self._held)))
                if self._random.random() < 0.7:
                    yield changes.RemoveItem(item, after(60), digest(b"<job/>"))
                else:
                    yield release(item)

    def _lock(self, tx):
        for item, _ in tx.ready({JOBS: self._random.randrange(4)}, NOW, ENOUGH).rows:
            change = changes.Lock(item, WORKERS[0], tx.number("token", 1), after(300), NOW)
            do(tx, change)
            self._held.append(afterwards.after(change))
            self.done["Lock"] += 1

    def _odds(self, number):
        if number % 5 == 4:
            yield changes.ConfigureNode(JOBS, replace(CONFIG, lock_timeout=number))
        if number == 6 and not self.done["EndSubscription"]:
            yield changes.EndSubscription(JOBS, WORKERS[1])


@pytest.fixture
async def recorded(recorder, tmp_path):
    """A store from its first byte: a long WAL, a restart, and then many checkpoints."""
    load = Load(recorder)
    path = tmp_path / "pubqueue.db"
    async with opened(path) as store:
        await load.look(store)
        await load.begin(store)
        await load.work(store, 10)
    async with opened(path) as store:
        await store.connection.run(lambda c: c.execute("PRAGMA wal_autocheckpoint = 12").fetchall())
        await load.work(store, 10)
    return load


async def fault(image, states, folder):
    """Return what is wrong with the image; None if nothing is."""
    image.unpack(folder)
    try:
        async with opened(folder / "pubqueue.db") as store:
            found = await store.connection.run(dump)
    except (ForeignStoreError, sqlite3.Error) as problem:
        return f"{image}: {problem}"
    finally:
        shutil.rmtree(folder)
    allowed = states[image.confirmed : image.confirmed + 2]  # the batch under way: all or nothing
    if found in allowed:
        return None
    what = "lost" if found in states[: image.confirmed] else "in no state that it ever had"
    return f"{image}: the store is {what}"


async def faults(events, states, folder):
    return [
        wrong
        for image in images(events, Random(2))
        if (wrong := await fault(image, states, folder)) is not None
    ]


async def test_every_image_holds_what_was_confirmed(recorder, recorded, tmp_path):
    events = list(recorder.events)
    assert min(recorded.done[name] for name in WHAT) > 3
    assert await faults(events, recorded.states, tmp_path / "image") == []


async def test_what_is_done_together_is_whole_or_not_there(recorder, tmp_path):
    load = Load(recorder)
    async with opened(tmp_path / "pubqueue.db") as store:
        await load.look(store)
        broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: NOW,
        )
        broker.start()
        news = NodeName("news")
        for request in (a_queue(), a_queue(news), *_done_together(news)):
            reply = await broker.handle(request)
            assert isinstance(reply, Declared | DoneTogether)
            recorder.events.append(Confirmed(len(load.states)))
            await load.look(store)
        await broker.stop()
    assert await faults(list(recorder.events), load.states, tmp_path / "image") == []


def _done_together(other):
    """Publish in two nodes, under a key as well, then retract and publish in both; some payloads take pages of their own."""
    large = b"<job>" + b"x" * 5000 + b"</job>"
    for at in range(0, 15, 5):
        names = [f"i{number}" for number in range(at, at + 5)]
        news = [
            publishes(name, node=node, payload=large) for name in names for node in (JOBS, other)
        ]
        old = [f"i{number}" for number in range(at - 5, at)] if at else []
        gone = [retracts(ETL, name, node=node) for name in old for node in (JOBS, other)]
        news[0] = replace(news[0], key=PublishKey(f"k{at}", Millis(60_000)))
        yield Together(who(ETL), (*news, *gone))


async def test_a_confirmed_frame_that_is_cut_off_is_noticed(recorder, tmp_path):
    load = Load(recorder)
    async with opened(tmp_path / "pubqueue.db") as store:
        await load.look(store)
        await load.begin(store)
        *_, image = images(list(recorder.events), Random(2))
    assert await fault(image, load.states, tmp_path / "image") is None
    wal = image.files["pubqueue.db-wal"]
    shorter = dataclasses.replace(image, files={**image.files, "pubqueue.db-wal": wal[:-FRAME]})
    assert "the store is lost" in await fault(shorter, load.states, tmp_path / "image")


async def test_commits_that_are_not_synced_are_noticed(recorder, tmp_path):
    load = Load(recorder)
    async with opened(tmp_path / "pubqueue.db") as store:
        await store.connection.run(lambda c: c.execute("PRAGMA synchronous = NORMAL").fetchall())
        await load.look(store)
        await load.begin(store)
        events = list(recorder.events)
    found = await faults(events, load.states, tmp_path / "image")
    assert any("the store is lost" in fault for fault in found)


def test_an_image_may_be_torn_and_out_of_order():
    waiting = [Write("f", 0, b"ab"), Write("f", 2, b"cd")]
    seen = {image.files.get("f") for seed in range(20) for image in images(waiting, Random(seed))}
    assert seen >= {None, b"a", b"ab", b"abc", b"abcd", b"\0\0cd"}
    synced = [*waiting, Sync("f"), Confirmed(1)]
    *_, last = images(synced, Random(1))
    assert last == Image(1, last.what, {"f": b"abcd"})
