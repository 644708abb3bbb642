"""Pins the cost of an item's usual life in statements, and the width of the seam, so that they do not grow.

A life is a publish to idle workers, which delivers the item, and the retract by its holder: two batches. One call of
the database is one statement, however many rows it writes; every read is one. `rows` counts a call that writes as often
as it has rows.
"""

import inspect
import re
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import pytest
from harness.batches.facts import NOW
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.transactions import stages
from harness.batches.witness import WatchedFace

from pubqueue.engine import batch_size
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.ports import Store, Transaction
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite import SqliteStore

NEWS = NodeName("news")
WORKERS = tuple(Jid(f"bot{number}@x/1") for number in range(4))
WRITES = ("INSERT", "UPDATE", "DELETE")
HEAD = re.compile(r"[^'\d]*")
"""A statement as far as to its first value."""


class Cost(NamedTuple):
    """The cost of a batch."""

    statements: int
    rows: int


@dataclass
class Service:
    """A broker on a store, with a face that reaches all addresses."""

    store: SqliteStore
    broker: Broker
    said: list = field(default_factory=list)
    run: list = field(default_factory=list)

    async def do(self, *requests):
        """Run the requests and deliveries in one batch; return the notices."""
        self.said.clear()
        for request in requests:
            self.broker.submit(request, self.said.append)
        await self.broker.settled()
        assert not [reply for reply in self.said if isinstance(reply, Refused)]
        return list(self.said)

    async def cost(self, *requests):
        """Run the requests, and return the cost and the deliveries."""
        run = []
        raw = self.store.connection.raw
        raw.set_trace_callback(run.append)
        said = await self.do(*requests)
        raw.set_trace_callback(None)
        self.run = own(run)
        assert self.run.count("COMMIT") == 1, self.run
        return counted(self.run), [each for each in said if isinstance(each, Deliver)]

    async def live(self, *names):
        """Run the life of items; return the costs of both batches."""
        publishing, delivered = await self.cost(*map(publishes, names))
        assert len(delivered) == len(names)
        retracting, more = await self.cost(*map(retract, delivered))
        assert not more
        return publishing, retracting

    async def stop(self):
        await self.broker.stop()
        await self.store.close()


def own(run):
    """Leave out statements of triggers, and a DELETE that is repeated because of dependent rows."""
    pairs = zip(run, [*run[1:], ""], strict=True)
    again = {at for at, (a, b) in enumerate(pairs, 1) if a == b and a.startswith("DELETE")}
    return [line for at, line in enumerate(run) if at not in again and not line.startswith("--")]


def counted(run):
    """Count the statements. Consecutive writes of one form are one call."""
    rows = [HEAD.match(line)[0] for line in run]
    runs = [(head, len(list(same))) for head, same in groupby(rows)]
    statements = sum(1 if head.startswith(WRITES) else count for head, count in runs)
    return Cost(statements, len(rows))


def retract(delivery):
    return retracts(delivery.to, delivery.item.id)


def names(start, count):
    return [f"{start}{number}" for number in range(count)]


@pytest.fixture
async def started(tmp_path, monkeypatch):
    """Return a function that opens the service again, as after a restart."""
    monkeypatch.setattr(
        batch_size, "LONG", 3600
    )  # counted, not timed: what comes together is one batch
    running = []

    async def start():
        if running:
            await running.pop().stop()
        store = SqliteStore(tmp_path / "queue.db")
        await store.open()
        broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: NOW,
        )
        running.append(service := Service(store, broker))
        face = WatchedFace(broker, service.said)
        broker.start()
        face.up()
        await broker.settled()
        return service

    yield start
    await running.pop().stop()


async def a_crew(service, requests, **settings):
    """Make a queue with idle workers."""
    await service.do(a_queue(**settings), *(joins(jid, requests) for jid in WORKERS))


# fmt: off
LIVES = {
    # items, the first of a process or later ones: what publishing them costs, and what retracting them
    (1,   "cold"): (Cost(16,  16), Cost(7,   7)),
    (10,  "cold"): (Cost(16,  37), Cost(7,  19)),
    (100, "cold"): (Cost(16, 217), Cost(7, 109)),
    (1,   "warm"): (Cost(7,    7), Cost(7,   7)),
    (10,  "warm"): (Cost(7,   19), Cost(6,  18)),
    (100, "warm"): (Cost(7,  109), Cost(6, 108)),
}
# fmt: on


@pytest.mark.parametrize(("items", "state"), LIVES)
async def test_the_life_of_items_takes_so_many_statements(started, items, state):
    await a_crew(await started(), 32)
    service = await started()
    if state == "warm":
        await service.live(*names("before", items))
    assert await service.live(*names("i", items)) == LIVES[items, state], service.run


async def test_the_event_log_takes_one_statement_more(started):
    service = await started()
    await a_crew(service, 32, event_log=1)
    await service.live(*names("before", 100))
    assert await service.live(*names("i", 100)) == (Cost(8, 309), Cost(7, 208)), service.run


async def test_retracts_that_hand_out_from_a_backlog_take_so_many_statements(started):
    service = await started()
    await a_crew(service, 25)
    _, held = await service.cost(*map(publishes, names("i", 300)))
    _, held = await service.cost(*map(retract, held))
    cost, come = await service.cost(*map(retract, held))
    assert len(held) == len(come) == 100
    assert cost == Cost(8, 209), service.run


async def test_publishes_to_a_transient_node_that_feeds_a_queue_take_so_many_statements(started):
    service = await started()
    await service.do(a_queue(NEWS, queueing=False, persist_items=False))
    await service.do(a_queue(source=NEWS))
    await service.cost(publishes("before", node=NEWS))
    cost, _ = await service.cost(*(publishes(name, node=NEWS) for name in names("i", 100)))
    assert cost == Cost(8, 108), service.run


async def test_staged_publishes_take_so_many_statements(started):
    service = await started()
    await a_crew(service, 32)
    await service.cost(*map(stages, names("before", 100)))
    cost, _ = await service.cost(*map(stages, names("i", 100)))
    assert cost == Cost(15, 115), service.run


def test_a_store_has_a_dozen_methods():
    methods = [
        name
        for seam in (Store, Transaction)
        for name, member in vars(seam).items()
        if inspect.isfunction(member) and not name.startswith("_")
    ]
    assert len(methods) <= 12, methods
