"""Who waits for a place, or serves, does so from the store that is there: not from half a copy, nor from a file that was."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing

import pytest
from harness.batches.toy_face import LineFace
from harness.patience import TIMEOUT, until
from stores.steps import EMPTY, add, make

from pubqueue.config.settings import NodeSettings, Settings
from pubqueue.engine import reaper
from pubqueue.engine.broker import Broker
from pubqueue.engine.ports import (
    FencedError,
    ForeignStoreError,
    Instance,
    StoreError,
    UnreachableStoreError,
)
from pubqueue.engine.redelivery import Undelivered
from pubqueue.faces.table import Row
from pubqueue.model import changes as c
from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.declare import Declare
from pubqueue.rules.schedules import DeclareSchedules
from pubqueue.stores.copying import copy
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.wiring import serving as serving_module
from pubqueue.wiring.serving import serve

OPEN = {"pubsub#publish_model": "open", "pubsub#access_model": "open"}


class Door:
    """A server that admits this service when it is told to; `faces` are all that have come to it."""

    def __init__(self):
        self.opened, self.waiting, self.ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.faces = []

    def face(self, broker, _settings, _accounts, on_ready):
        door = self

        class WaitingFace(LineFace):
            closed = False

            async def enter(self, on_waiting):
                on_waiting()
                await door.opened.wait()

            async def stop(self):
                self.closed = True
                await super().stop()

        self.faces.append(WaitingFace(broker, on_ready))
        return self.faces[-1]

    async def confirms(self, name):
        """Publish an item at the face that is there now, and return the answer."""
        line = self.faces[-1].connect("etl")
        line.say(f"PUT jobs {name} text")
        return await line.hear()


class Unwatched:
    """Nobody looks on."""

    def begin(self, rows):
        pass

    def step(self, what, rows):
        pass


def items(path):
    """Return the ids of all items in a file."""
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT id FROM item ORDER BY seq")]


@asynccontextmanager
async def serving(monkeypatch, path):
    """A service on this file that waits for its place; yields the door, and the task that serves."""
    door, stop = Door(), asyncio.Event()
    monkeypatch.setattr("pubqueue.wiring.faces.FACES", {"line": Row(make=door.face)})
    node = NodeSettings("jobs", queueing=True, options=OPEN)
    settings = Settings(jid="queue.example.org", secret="s", store=f"sqlite://{path}", node=(node,))
    task = asyncio.create_task(
        serve(settings, stop=stop, on_ready=door.ready.set, on_waiting=door.waiting.set)
    )
    async with asyncio.timeout(TIMEOUT):
        try:
            await door.waiting.wait()
            yield door, task
        finally:
            stop.set()
            await asyncio.gather(task, return_exceptions=True)


async def made(path, *names):
    """Make a store at a path, with a queue of these items if there are any."""
    store = SqliteStore(path)
    await store.open()
    if names:
        await make(store, c.CreateNode(EMPTY), *map(add, names))
    await store.close()
    return path


async def test_what_was_restored_meanwhile_is_served_when_the_place_is_free(tmp_path, monkeypatch):
    source = await made(tmp_path / "source.db", "a", "b")
    path = await made(tmp_path / "queue.db")
    async with serving(monkeypatch, path) as (door, _):
        await asyncio.to_thread(copy, f"sqlite://{source}", f"sqlite://{path}", Unwatched())
        door.opened.set()
        await door.ready.wait()
        assert await door.confirms("new") == "OK"
    assert items(path) == ["a", "b", "new"]


async def test_half_a_copy_is_not_served_by_a_process_that_waited(tmp_path, monkeypatch):
    path = await made(tmp_path / "queue.db")
    async with serving(monkeypatch, path) as (door, task):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE copying (source TEXT NOT NULL) STRICT")
            connection.execute("INSERT INTO copying VALUES ('backup:/b')")
            connection.execute(f"PRAGMA application_id = {0x70756263}")
            connection.commit()
        door.opened.set()
        with pytest.raises(ForeignStoreError, match="the copy from backup:/b is not complete"):
            await task
    assert not list(tmp_path.glob("*-instance-*"))


@pytest.mark.parametrize("is_serving", [False, True])
async def test_a_file_that_was_replaced_is_opened_again(tmp_path, monkeypatch, is_serving):
    path, newer = await made(tmp_path / "queue.db"), await made(tmp_path / "newer.db")
    async with serving(monkeypatch, path) as (door, _):
        if is_serving:
            door.opened.set()
            await door.ready.wait()
            door.ready.clear()
            assert await door.confirms("old") == "OK"
        else:
            await made(path, "old")
        newer.replace(path)
        door.opened.set()
        await door.ready.wait()
        assert await door.confirms("new") == "OK"
        assert [face.closed for face in door.faces] == [True, False]
    assert items(path) == ["new"]
    assert (tmp_path / "queue.db-wal-replaced-1").stat().st_size
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_store_that_goes_away_as_the_service_begins_is_waited_for(tmp_path, monkeypatch):
    """Its place is given back meanwhile, and taken again."""
    whole, gone = serving_module.bring_nodes, []

    async def fails_once(*given):
        if not gone:
            gone.append(True)
            raise UnreachableStoreError("Connection refused")
        return await whole(*given)

    monkeypatch.setattr(serving_module, "bring_nodes", fails_once)
    monkeypatch.setattr(serving_module, "RETRY_INTERVAL", 0)
    async with serving(monkeypatch, await made(tmp_path / "queue.db")) as (door, _):
        door.opened.set()
        await door.ready.wait()
        assert await door.confirms("new") == "OK"
        assert [face.closed for face in door.faces] == [True, False]
    assert (gone, items(tmp_path / "queue.db")) == ([True], ["new"])


async def test_clients_are_served_while_former_connections_are_being_freed(tmp_path, monkeypatch):
    """A store that fails meanwhile is asked again."""
    whole, asked, may = reaper.free_connections, [], asyncio.Event()

    async def fails_once(*given):
        asked.append(True)
        if len(asked) == 1:
            raise UnreachableStoreError("Connection refused")
        await may.wait()
        await whole(*given)
        asked.append("freed")

    monkeypatch.setattr(reaper, "free_connections", fails_once)
    monkeypatch.setattr(reaper, "RETRY", 0)
    async with serving(monkeypatch, await made(tmp_path / "queue.db")) as (door, _):
        door.opened.set()
        await door.ready.wait()
        assert await door.confirms("new") == "OK"
        await until(lambda: len(asked) == 2)
        may.set()
        await until(lambda: asked[-1] == "freed")
        assert [face.closed for face in door.faces] == [False]


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_stop_leaves_what_is_not_freed_to_the_next_start(tmp_path, monkeypatch, is_done):
    """A process that has left in order has nothing that others would look for."""
    left, begun = [], asyncio.Event()

    async def frees(*_given):
        begun.set()
        if not is_done:
            await asyncio.Event().wait()

    async def notes(undelivered):
        left.append(undelivered)

    monkeypatch.setattr(reaper, "free_connections", frees)
    monkeypatch.setattr(Undelivered, "note_all_delivered", notes)
    async with serving(monkeypatch, await made(tmp_path / "queue.db")) as (door, _):
        door.opened.set()
        await door.ready.wait()
        await begun.wait()
        assert await door.confirms("new") == "OK"
    assert len(left) == is_done


@pytest.mark.parametrize("access", ["batch", "read"])
async def test_a_store_that_fails_as_the_service_begins_is_waited_for_and_not_taken_for_a_wrong_file(
    tmp_path, monkeypatch, access
):
    """A disk may be full, or a query cut off: neither is a mistake in the configuration."""
    whole, failed = getattr(SqliteStore, access), []

    async def fails_once(store, job):
        if not failed:
            failed.append(access)
            raise StoreError("database or disk is full")
        return await whole(store, job)

    monkeypatch.setattr(serving_module, "RETRY_INTERVAL", 0)
    async with serving(monkeypatch, await made(tmp_path / "queue.db")) as (door, _):
        monkeypatch.setattr(SqliteStore, access, fails_once)
        door.opened.set()
        await door.ready.wait()
        assert await door.confirms("new") == "OK"
        assert [face.closed for face in door.faces] == [True, False]
    assert (failed, items(tmp_path / "queue.db")) == ([access], ["new"])


@pytest.mark.parametrize("refusal", [Refusal.STORE_FAILED, Refusal.INTERNAL_FAULT])
@pytest.mark.parametrize("request_of", [Declare, DeclareSchedules])
async def test_a_declaration_that_fails_is_made_again_and_not_taken_for_a_wrong_file(
    tmp_path, monkeypatch, refusal, request_of
):
    """A request may meet a fault of ours, or of the database: neither is a mistake in the configuration."""
    whole, failed = Broker.handle, []

    async def fails_once(broker, request):
        if isinstance(request, request_of) and not failed:
            failed.append(request_of)
            return Refused(refusal)
        return await whole(broker, request)

    monkeypatch.setattr(serving_module, "RETRY_INTERVAL", 0)
    async with serving(monkeypatch, await made(tmp_path / "queue.db")) as (door, _):
        monkeypatch.setattr(Broker, "handle", fails_once)
        door.opened.set()
        await door.ready.wait()
        assert await door.confirms("new") == "OK"
    assert (failed, items(tmp_path / "queue.db")) == ([request_of], ["new"])


async def test_nothing_is_written_to_a_file_that_is_no_more_under_its_name(tmp_path):
    path, newer = tmp_path / "queue.db", await made(tmp_path / "newer.db")
    store = SqliteStore(path)
    await store.open()
    path.rename(tmp_path / "away.db")
    for ask in (lambda: store.batch(lambda tx: tx.number("item", 1)), store.changes):
        with pytest.raises(StoreError, match="No such file") as caught:
            await ask()
        assert not isinstance(caught.value, FencedError), "it may come back"
    (tmp_path / "away.db").rename(path)
    assert await store.batch(lambda tx: tx.number("item", 1)) == 1
    newer.replace(path)
    asked = (
        lambda: store.batch(lambda tx: tx.number("item", 1)),
        lambda: store.read(lambda tx: tx.number("item", 0)),
        store.changes,
        store.instances.enter,
    )
    for ask in asked:
        with pytest.raises(FencedError, match="is another file than the one that was opened"):
            await ask()
    await store.close()
    await store.open()
    assert await store.batch(lambda tx: tx.number("item", 0)) == 1
    assert await store.instances.enter() == Instance(0)
    await store.close()
