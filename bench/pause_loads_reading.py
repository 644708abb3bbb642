"""Loads of readers, for `bench.pauses`: a long queue that is read, and many nodes that are listed.

Each is a pair. `lay_...(store, size, now)` fills an empty store; `..._readers(service, size)` reads from it while
others use the service, and ends when that is done. `service` is any object with a `broker` and `do(request)`, which
returns the reply.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.batches.facts import BOSS, EVE, who
from msgspec.structs import replace

from pubqueue.engine.rows import AFFILIATIONS, AffiliationRow, Needs, Write, Writes
from pubqueue.model.entities import (
    Affiliation,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    State,
)
from pubqueue.model.replies import Page
from pubqueue.rules.discovery import Describe, ListItems, ListNodes
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create
from pubqueue.rules.read import ReadItems, ReadNodes
from pubqueue.rules.retrieve import Retrieve

if TYPE_CHECKING:
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Store
    from pubqueue.model.decision import Request

LONG: Final = NodeName("long")
OWNER: Final = Jid("boss@x")
PAYLOAD: Final = b"<job xmlns='urn:x'>" + b"x" * 180 + b"</job>"
AT_ONCE: Final = 5000
LOOKS: Final = 20


class Service(Protocol):
    """A queue that is being measured."""

    broker: Broker

    async def do(self, request: Request) -> Any:  # the reply to the request
        """Submit a request, which must succeed."""


async def lay_long_queue(store: Store, size: int, now: Millis) -> None:
    """Store one open queue with this many items."""
    await _lay_nodes(store, [LONG], now)
    for begin in range(0, size, AT_ONCE):
        count = min(AT_ONCE, size - begin)
        await store.batch(lambda tx, begin=begin, count=count: _add(tx, begin, count, now))  # type: ignore[misc]


def _add(tx: Any, begin: int, count: int, now: Millis) -> None:
    (node,) = tx.load(Needs(nodes={LONG})).nodes
    first = tx.number("item", count)
    writes = Writes(now, nodes=[Write(node, replace(node, items=node.items + count))])
    for at in range(count):
        name = ItemId(f"i{begin + at}")
        writes.items.append(Write(None, Item(first + at, LONG, name, State.QUEUED, OWNER, now)))
        writes.payloads[first + at] = PAYLOAD
    tx.write(writes)


async def long_queue_readers(service: Service, size: int) -> None:
    """Let strangers request the newest item while the owner reads the queue in all three ways."""
    await asyncio.gather(
        _strangers(service), _retrieve_all(service, size), _list_all(service), _read_all(service)
    )


async def _strangers(service: Service) -> None:
    for _ in range(LOOKS):
        await asyncio.gather(*(service.do(Retrieve(who(EVE), LONG, newest=1)) for _ in range(10)))


async def _retrieve_all(service: Service, size: int) -> None:
    """Read pages from the beginning, and the last ones, for which a walk through the queue would be most expensive."""
    for begin in (0, max(0, size - 10_000)):
        after = f"i{begin}"
        for _ in range(LOOKS):
            reply = await service.do(Retrieve(who(BOSS), LONG, page=Page(after, 500)))
            if not reply.items:
                break
            after = reply.items[-1][0].id


async def _list_all(service: Service) -> None:
    after = None
    for _ in range(LOOKS):
        reply = await service.do(ListItems(who(BOSS), LONG, Page(after, 1000)))
        if not reply.part.more:
            break
        after = reply.entries[-1][0]


async def _read_all(service: Service) -> None:
    after, states = 0, (None, State.LOCKED)
    for number in range(LOOKS):
        state = states[number % 2]
        page = await service.do(ReadItems(who(BOSS), LONG, after, state=state))
        after = page.through


async def lay_many_nodes(store: Store, size: int, now: Millis) -> None:
    """Store this many open queues, each with an item but no worker."""
    names = [NodeName(f"n{number:06}") for number in range(size)]
    for begin in range(0, size, AT_ONCE):
        await _lay_nodes(store, names[begin : begin + AT_ONCE], now, items=1)


async def many_nodes_readers(service: Service, size: int) -> None:
    """Let strangers list and describe nodes while the owner counts them, others create some, and the broker takes a survey."""
    await asyncio.gather(_list_nodes(service), _count_nodes(service), _make_nodes(service))
    for number in range(LOOKS):
        service.broker.look_around()
        name = NodeName(f"n{number % size:06}")
        await service.do(Describe(who(EVE), name, manage=False))


async def _list_nodes(service: Service) -> None:
    await asyncio.gather(*(service.do(ListNodes(who(EVE))) for _ in range(LOOKS)))
    after = None
    while True:
        reply = await service.do(ListNodes(who(EVE), Page(after, 1000)))
        if not reply.part.more:
            return
        after = reply.entries[-1][0]


async def _count_nodes(service: Service) -> None:
    for _ in range(LOOKS):
        await service.do(ReadNodes(who(BOSS)))


async def _make_nodes(service: Service) -> None:
    settings = Settings({"queueing": True})
    for number in range(LOOKS):
        await service.do(Create(who(BOSS), NodeName(f"made{number}"), settings))


async def _lay_nodes(store: Store, names: list[NodeName], now: Millis, items: int = 0) -> None:
    def job(tx: Any) -> None:
        first = tx.number("item", max(1, items * len(names)))
        writes = Writes(now)
        for at, name in enumerate(names):
            node = Node(name, NodeConfig(queueing=True), OWNER, now, items)
            writes.nodes.append(Write(None, node))
            role = AffiliationRow(name, OWNER, Affiliation.OWNER)
            writes.of[AFFILIATIONS].append(Write(None, role))
            if items:
                item = Item(first + at, name, ItemId("i"), State.QUEUED, OWNER, now)
                writes.items.append(Write(None, item))
                writes.payloads[first + at] = PAYLOAD
        tx.write(writes)

    await store.batch(job)


# fmt: off
READING_LOADS: Final = {
    "read-long-queue": (300_000, lay_long_queue, long_queue_readers),
    "list-nodes":      ( 10_000, lay_many_nodes, many_nodes_readers),
}
"""By name: the size, the function that fills the store, and the measured work."""
# fmt: on
