"""Presence of strangers: nothing of it is stored, and workers are still known to be available."""

from itertools import islice

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace, WatchedStore
from harness.depth import examples
from harness.stores.store_reader import StoreReader

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.presence_retry import BESIDE_ADDRESS, MAX_BYTES, MAX_RESOURCES, Newcomers
from pubqueue.engine.rows import PEOPLE, Needs
from pubqueue.model.entities import ItemId, Jid, State, account_of
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import Arrive, Bounce, Leave
from pubqueue.stores.sqlite.in_memory import MemoryStore

ACCOUNT = account_of(ANN)
TABLET = Jid(f"{ACCOUNT}/tablet")
MANY = examples(10_000)


class Service:
    """A broker on a store in memory, with a face that is up."""

    def __init__(self):
        self.log = []
        self.inner = MemoryStore()
        self.store = WatchedStore(self.inner, self.log)
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: NOW,
        )
        self.face = WatchedFace(self.broker, self.log)

    async def do(self, *requests):
        """Run the requests, in as few batches as possible."""
        for request in requests:
            self.broker.submit(request, lambda _reply: None)
        await self.broker.settled()

    async def here(self, account=ACCOUNT):
        """Return the resources of the account that are known to be available."""
        rows = await self.store.batch(lambda tx: tx.load(Needs(resources={account})))
        return rows.resources

    async def item(self):
        """Return the state of the item."""
        item = await self.store.batch(lambda tx: StoreReader(tx).item(JOBS, ItemId("a")))
        return item.state


@pytest.fixture
async def service():
    service = Service()
    await service.inner.open()
    service.broker.start()
    service.face.up()
    await service.do(a_queue(backoff_min=1))
    yield service
    await service.broker.stop()


def flood(kind=Arrive, tail=""):
    return (kind(Jid(f"bot{number}@evil.example/{tail}")) for number in range(MANY))


async def test_many_strangers_leave_no_rows_and_a_leaving_worker_is_noticed(
    service,
):
    await service.do(Arrive(ANN), joins(ACCOUNT), Arrive(TABLET), publishes("a"))
    assert await service.here() == [ANN, TABLET]
    await service.do(*flood())
    assert await service.here(Jid("bot7@evil.example")) == []
    cache = service.broker.committer.rows.cache
    for table in (cache.of_jid, cache.resources, cache.held, cache.everywhere, cache.of[PEOPLE]):
        assert len(table) < 100
    assert service.broker.newcomers.byte_count <= MAX_BYTES
    await service.do(*flood(Leave))
    assert await service.item() is State.LOCKED
    await service.do(Leave(TABLET))
    assert await service.item() is State.LOCKED
    await service.do(Leave(ANN))
    assert await service.item() is State.DELAYED or await service.item() is State.QUEUED
    assert await service.here() == []


async def test_bounces_of_strangers_leave_nothing_behind(service):
    await service.do(joins(BOB), publishes("a"))
    back = (Bounce(one.jid, 1, 1, gone=True, bounced=True) for one in flood())
    await service.do(*islice(back, 2_000))
    cache = service.broker.committer.rows.cache
    assert len(cache.of_account) < 100
    assert await service.item() is State.LOCKED


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("first", ["presence", "subscription"])
@pytest.mark.parametrize("jid", [ANN, ACCOUNT])
async def test_a_worker_may_become_available_before_or_after_it_subscribes(
    service, jid, first, together
):
    asks = joins(ANN) if jid == ANN else by_resource(joins(ACCOUNT))
    words = [Arrive(ANN), asks] if first == "presence" else [asks, Arrive(ANN)]
    for some in [words] if together else [[word] for word in words]:
        await service.do(*some)
    assert await service.here() == [ANN]
    await service.do(publishes("a"))
    assert await service.item() is State.LOCKED
    await service.do(Leave(ANN))
    assert await service.item() is not State.LOCKED


async def test_the_other_resources_of_an_account_that_subscribes_are_known_too(service):
    await service.do(Arrive(TABLET), Arrive(ANN))
    await service.do(by_resource(joins(ACCOUNT)), publishes("a"))
    await service.do(Leave(ANN))
    assert await service.item() is State.LOCKED


async def test_an_address_that_left_before_it_was_known_is_not_available(service):
    await service.do(Arrive(TABLET), Arrive(ANN))
    await service.do(Leave(TABLET))
    await service.do(by_resource(joins(ACCOUNT)))
    assert await service.here() == [ANN]


def by_resource(asks):
    """Let a resource of the account subscribe it."""
    return type(asks)(type(asks.by)(ANN), asks.node, asks.jid, asks.subid, asks.options)


def test_newcomers_of_a_stream_that_is_lost_are_forgotten():
    newcomers = Newcomers()
    newcomers.came(Jid("bot@x/1"))
    newcomers.forget()
    assert (newcomers.of(Jid("bot@x")), newcomers.byte_count) == ((), 0)
    newcomers.came(Jid("bot@x/1"))
    newcomers.left(Jid("bot@x/1"))
    assert (newcomers.of(Jid("bot@x")), newcomers.byte_count) == ((), 0)


def test_newcomers_are_remembered_in_so_many_bytes():
    newcomers = Newcomers()
    for number in range(20_000):
        newcomers.came(Jid(f"bot{number}@evil.example/{'x' * 1000}"))
        assert newcomers.byte_count <= MAX_BYTES
    assert newcomers.of(Jid("bot0@evil.example")) == ()
    assert len(newcomers.of(Jid("bot19999@evil.example"))) == 1
    assert MAX_BYTES > 100 * (2 * 40 + BESIDE_ADDRESS)


def test_only_the_last_resources_of_an_account_are_remembered():
    newcomers = Newcomers()
    for number in range(MAX_RESOURCES + 5):
        newcomers.came(Jid(f"bot@evil.example/{number}"))
    newcomers.came(Jid("bot@evil.example"))
    known = newcomers.of(Jid("bot@evil.example"))
    assert known == tuple(f"bot@evil.example/{n}" for n in range(5, MAX_RESOURCES + 5))
    for jid in known:
        newcomers.left(jid)
    newcomers.left(known[0])
    assert (newcomers.byte_count, newcomers.of(Jid("bot@evil.example"))) == (0, ())
