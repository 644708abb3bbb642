"""Processes on one PostgreSQL: each hears at once when another has written, whatever becomes of its connection."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from harness.asks import a_queue, joins, publishes
from harness.facts import ANN
from harness.patience import PATIENCE
from harness.witness import WatchedFace
from stores.steps import EMPTY, add, make

from pubqueue.app import other_processes
from pubqueue.app.broker import Broker
from pubqueue.app.other_processes import OtherProcesses
from pubqueue.core import changes as c
from pubqueue.core.nodes.access import CreationPolicy
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.wiring import now

EVER = 3600.0
CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pubqueue'"
)


@asynccontextmanager
async def serving(postgres):
    """A store whose process counts among those that serve, and has heard what there was to hear."""
    store = PostgresStore(postgres.address)
    await store.open()
    await store.instances.enter()
    await store.instances.hear(0)
    yield store
    await store.close()


@pytest.fixture
async def one(postgres):
    async with serving(postgres) as store:
        await make(store, c.CreateNode(EMPTY))
        yield store


@pytest.fixture
async def other(one, postgres):
    async with serving(postgres) as store:
        yield store


async def hears(store):
    async with asyncio.timeout(PATIENCE):
        await store.instances.hear(EVER)


async def test_a_commit_wakes_those_who_serve_beside_it(one, other):
    hearing = asyncio.create_task(hears(other))
    await make(one, add("a"))
    await hearing
    await make(one, add("b"))
    await hears(other)


async def test_who_reads_or_is_undone_wakes_nobody_and_nobody_wakes_himself(one, other, postgres):
    await make(other, add("mine"))
    await one.batch(lambda tx: tx.number("item", 0))
    with pytest.raises(ZeroDivisionError):
        await one.batch(lambda tx: tx.number("item", 1) / 0)
    assert await heard_by(other, postgres) == []


async def test_who_serves_alone_tells_nobody(one, postgres):
    with postgres.session() as listening:
        listening.execute("LISTEN pubqueue")
        await make(one, add("a"))
        async with serving(postgres):
            await make(one, add("b"))
        await one.instances.leave(0)
        assert said_so_far(listening, postgres) == [one._id]


async def test_a_lost_connection_may_have_lost_a_word(one, other, postgres):
    hearing = asyncio.create_task(hears(other))
    postgres.ask(CONNECTIONS)
    await hearing
    assert await heard_by(other, postgres) == []
    await make(one, add("a"))
    await hears(other)


async def test_without_a_server_the_time_passes(other, postgres):
    await asyncio.to_thread(postgres.kill)
    await other.instances.hear(0)
    postgres.start()  # here: it ends with the thread that started it
    await hears(other)


def said_so_far(connection, postgres):
    """Return who has spoken and was not heard yet: notifications come in the order of the commits."""
    postgres.ask("NOTIFY pubqueue, 'the end'")
    words = connection.notifies(timeout=PATIENCE)
    return list(iter(lambda: next(words).payload, "the end"))


async def heard_by(store, postgres):
    """Return who besides itself has spoken, and was not heard yet."""
    instances = store.instances
    said = await instances._line.run(lambda: said_so_far(instances._locked_on, postgres))
    return [name for name in said if name != store._id]


@asynccontextmanager
async def process(postgres, *, connected):
    """A broker as a process has it, and what it says."""
    heard = asyncio.Queue()
    async with serving(postgres) as store:
        broker, watch = (
            Broker(store, clock=now, policy=CreationPolicy.ANYONE, same_payload=bytes.__eq__),
            OtherProcesses(store),
        )
        face = WatchedFace(broker, Said(heard))
        broker.start()
        if connected:
            face.up()
        watch.start(broker)
        yield broker, heard
        await watch.stop()
        await broker.stop()


class Said:
    """Puts what is said into a queue."""

    def __init__(self, heard):
        self._heard = heard

    def extend(self, notices):
        for notice in notices:
            self._heard.put_nowait(notice)


async def test_what_one_cannot_hand_out_another_does_as_soon_as_it_is_committed(
    postgres, monkeypatch
):
    monkeypatch.setattr(other_processes, "PERIOD", EVER)
    async with (
        process(postgres, connected=False) as (cut_off, _),
        process(postgres, connected=True) as (_, heard),
    ):
        for request in (a_queue(), joins(ANN), publishes("a")):
            await cut_off.handle(request)
        async with asyncio.timeout(PATIENCE):
            delivery = await heard.get()
        assert (delivery.to, delivery.item.id) == (ANN, "a")
