"""The power fails while the store works: whatever the disk then holds, the store opens, whole, with all
that was confirmed, and with nothing of a batch but all of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest
from harness.facts import BOSS, ETL, draft, who
from harness.power import Image, images
from harness.recording_vfs import Confirmed, Recorder, Sync, Write
from harness.txns import commits, stages
from msgspec.structs import replace

from pubqueue.app.batch import run
from pubqueue.app.facts import Context
from pubqueue.app.ports import ForeignStoreError
from pubqueue.core.access import CreationPolicy
from pubqueue.core.decision import (
    Deliver,
    Refused,
)
from pubqueue.core.manage import Configure, Create, SetAffiliations
from pubqueue.core.model import Affiliation, Jid, Millis, NodeName
from pubqueue.core.publish import Publish
from pubqueue.core.settle import Settle, Verb
from pubqueue.core.subscribe import Subscribe, Unsubscribe
from pubqueue.stores.sqlite import SqliteStore

JOBS = NodeName("jobs")
WORKERS = [Jid(f"bee{n}@x/1") for n in range(3)]
WHAT = ("Publish", "Settle", "Configure", "Lock", "StagePublish", "CommitVersion")
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
        self._clock = 1_000_000
        self._published = 0
        self._held = []
        self.states = []
        self.done = Counter()

    async def look(self, store):
        self.states.append(await store._connection.run(dump))

    async def batch(self, store, requests):
        """Run the requests in one batch, and take note once it is confirmed."""
        self._clock += 1000
        outcome = await store.batch(partial(self._run, requests))
        self._events.append(Confirmed(len(self.states)))
        await self.look(store)
        for request, decision in zip(requests, outcome.decisions, strict=True):
            assert not isinstance(decision.reply, Refused), (request, decision)
            self.done[type(request).__name__] += 1
        self.done["Lock"] += len(outcome.deliveries)
        self._held += [said for said in outcome.deliveries if isinstance(said, Deliver)]

    async def begin(self, store):
        """Make a queue with its workers."""
        boss = who(BOSS, local=True)
        publishers = ((Jid("etl@x"), Affiliation.PUBLISHER),)
        await self.batch(
            store,
            [
                Create(
                    boss, JOBS, {"x-queueing#enabled": ["1"], "x-queueing#dedup_window": ["60"]}
                ),
                SetAffiliations(boss, JOBS, publishers),
            ],
        )
        form = {"pubsub#queue_requests": ["4"]}
        subscribing = [Subscribe(who(jid), JOBS, jid, f"of-{jid}", form) for jid in WORKERS]
        await self.batch(store, subscribing)

    async def work(self, store, batches):
        for number in range(batches):
            said = [*self._publishes(), *self._settles(), *self._odds(number), *self._commits()]
            await self.batch(store, said)

    def _run(self, requests, tx):
        context = Context(tx, Millis(self._clock), CreationPolicy.ANYONE, bytes.__eq__)
        return run(context, requests, dispatching=True, everywhere=False)

    def _publishes(self):
        for _ in range(self._random.randrange(1, 3)):
            self._published += 1
            size = self._random.choice((10, 300, 5000))  # the largest takes pages of its own
            item = draft(f"i{self._published}", b"<job>" + b"x" * size + b"</job>")
            yield Publish(who(ETL), JOBS, (item,))

    def _commits(self):
        """Stage an item, and commit every third with those before it."""
        version, before = divmod(self.done["StagePublish"], 3)
        yield stages(f"v{version}-{before}", version=version, payload=b"<job>staged</job>")
        if before == 2:
            yield commits((0, 0, 3), version=version)

    def _settles(self):
        for _ in range(self._random.randrange(3)):
            if self._held:
                lock = self._held.pop(self._random.randrange(len(self._held)))
                verb = self._random.choice((Verb.RETRACT, Verb.RETRACT, Verb.UNLOCK))
                yield Settle(who(lock.to), JOBS, (lock.item.id,), verb)

    def _odds(self, number):
        if number % 5 == 4:
            yield Configure(who(BOSS), JOBS, {"x-queueing#lock_timeout": [str(number)]})
        if number == 6 and not self.done["Unsubscribe"]:
            yield Unsubscribe(who(WORKERS[0]), JOBS, WORKERS[0])


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
        await store._connection.run(
            lambda c: c.execute("PRAGMA wal_autocheckpoint = 12").fetchall()
        )
        await load.work(store, 10)
    return load


async def fault(image, states, folder):
    """Return what is wrong with the image; None if nothing is."""
    image.unpack(folder)
    try:
        async with opened(folder / "pubqueue.db") as store:
            found = await store._connection.run(dump)
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


async def test_a_confirmed_frame_that_is_cut_off_is_noticed(recorder, tmp_path):
    load = Load(recorder)
    async with opened(tmp_path / "pubqueue.db") as store:
        await load.look(store)
        await load.begin(store)
        *_, image = images(list(recorder.events), Random(2))
    assert await fault(image, load.states, tmp_path / "image") is None
    wal = image.files["pubqueue.db-wal"]
    shorter = replace(image, files={**image.files, "pubqueue.db-wal": wal[:-FRAME]})
    assert "the store is lost" in await fault(shorter, load.states, tmp_path / "image")


async def test_commits_that_are_not_synced_are_noticed(recorder, tmp_path):
    load = Load(recorder)
    async with opened(tmp_path / "pubqueue.db") as store:
        await store._connection.run(lambda c: c.execute("PRAGMA synchronous = NORMAL").fetchall())
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
