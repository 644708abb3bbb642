"""How often a batch waits for PostgreSQL: it does not depend on how much is in the batch."""

import itertools

import pytest
from harness.batches.facts import NOW
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.witness import WatchedFace
from harness.databases.postgres_wire import PostgresWire

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.postgres.store import PostgresStore

MAX_COSTS = (7, 7)
"""Trips of a batch that publishes and hands out, and of one that retracts, when everything has to be read again."""

WORKERS = tuple(Jid(f"bot{number}@x/1") for number in range(4))


class Service:
    """A broker on a store at the other end of a wire."""

    def __init__(self, wire, store, broker, said):
        self.wire, self.store, self.broker, self.said = wire, store, broker, said

    async def trips(self, *requests):
        """Have them done in one batch; return how often the store waited, and what was delivered."""
        self.said.clear()
        before = self.wire.trips
        for request in requests:
            self.broker.submit(request, self.said.append)
        await self.broker.settled()
        assert not [reply for reply in self.said if isinstance(reply, Refused)]
        delivered = [each for each in self.said if isinstance(each, Deliver)]
        return self.wire.trips - before, delivered

    async def live(self, names, most, between=None):
        """Take items through their life in two batches, neither with more trips than that; on a busy machine two are seen as one."""
        publishing, delivered = await self.trips(*map(publishes, names))
        assert len(delivered) == len(names)
        if between:
            await between()
        retracting, _ = await self.trips(*(retracts(each.to, each.item.id) for each in delivered))
        assert (publishing <= most[0], retracting <= most[1]) == (True, True), (
            publishing,
            retracting,
        )


@pytest.fixture
async def start(postgres):
    running = []

    async def start():
        wire = await PostgresWire(postgres.port).__aenter__()
        store = PostgresStore(wire.address(postgres.address))
        await store.open()
        said = []
        broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: NOW,
        )
        face = WatchedFace(broker, said)
        broker.start()
        face.up()
        await broker.settled()
        running.append(Service(wire, store, broker, said))
        return running[-1]

    yield start
    for service in running:
        await service.broker.stop()
        await service.store.close()
        await service.wire.__aexit__(None, None, None)


def named(letter, count):
    return [f"{letter}{number}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 10, 100])
async def test_a_batch_waits_a_handful_of_times_whatever_its_size(start, count):
    service = await start()
    await service.trips(a_queue(), *(joins(jid, 50) for jid in WORKERS))
    await service.live(named("first", count), (4, 2))
    await service.live(named("usual", count), (3, 2))


@pytest.mark.parametrize("count", [1, 10, 100])
async def test_after_another_process_has_written_rows_are_asked_for_again_in_few_trips(
    start, count
):
    service, other = await start(), await start()
    await service.trips(a_queue(), *(joins(jid, 50) for jid in WORKERS))
    await service.live(named("first", count), (4, 2))

    numbers = itertools.count()

    async def elsewhere():
        await other.trips(publishes(f"elsewhere{next(numbers)}"))

    await elsewhere()
    await service.live(named("next", count), MAX_COSTS, between=elsewhere)
