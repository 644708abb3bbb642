"""Loads of plain nodes that feed queues, for `bench.pauses`: very many publishes at once, and some of maximum size.

Each is a row as in `pause_loads_groups`. All go into `MAX_FED` queues, so a publish of one item makes 101 items, one of
twenty 2,020, one of a thousand 101,000.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.batches.queue_requests import publishes

from pubqueue.engine.rows import AFFILIATIONS, AffiliationRow, Write, Writes
from pubqueue.model.entities import Affiliation, Feed, Jid, Millis, Node, NodeConfig, NodeName
from pubqueue.rules.feed import MAX_FED
from pubqueue.rules.publication import MAX_COPIES

if TYPE_CHECKING:
    from pubqueue.engine.ports import Store

FEEDING: Final = NodeName("feeding")
OWNER: Final = Jid("boss@x")
BULK: Final = "bulk@x"
"""Publishes many items at once. The trickle has another account, because only an account's own large requests delay it."""
AT_ONCE: Final = MAX_COPIES // MAX_FED
PAYLOAD: Final = b"<job xmlns='urn:x'>" + b"x" * 180 + b"</job>"


async def lay_fed_queues(store: Store, _size: int, now: Millis) -> None:
    """Store a plain node and the queues that it feeds."""
    names = [NodeName(f"fed-{number}") for number in range(MAX_FED)]
    feeds = tuple(Feed(name, OWNER) for name in names)
    nodes = [Node(FEEDING, NodeConfig(feeds=feeds), OWNER, now)]
    nodes += [Node(name, NodeConfig(queueing=True, source=FEEDING), OWNER, now) for name in names]
    writes = Writes(now, nodes=[Write(None, node) for node in nodes])
    writes.of[AFFILIATIONS] = [
        Write(None, AffiliationRow(FEEDING, Jid(BULK), Affiliation.PUBLISHER))
    ]
    await store.batch(lambda tx: tx.write(writes))


async def feed_many(service: Any, size: int) -> None:
    """Publish this many items, each with its own request, all at once."""
    await asyncio.gather(*(_publish(service, range(at, at + 1)) for at in range(size)))


async def feed_large(service: Any, size: int) -> None:
    """Publish this many items, in publishes of maximum size."""
    await asyncio.gather(
        *(_publish(service, range(at, at + AT_ONCE)) for at in range(0, size, AT_ONCE))
    )


async def feed_in_slices(service: Any, size: int) -> None:
    """Publish this many items at once, more than one commit may add to the queues."""
    await _publish(service, range(size))


async def _publish(service: Any, numbers: range) -> None:
    ids = [f"f{number}" for number in numbers]
    await service.do(publishes(*ids, by=BULK, node=FEEDING, payload=PAYLOAD))


FEEDING_LOADS: Final = {
    "feed-many": (200, lay_fed_queues, feed_many),
    "feed-large": (400, lay_fed_queues, feed_large),
    "feed-in-slices": (1_000, lay_fed_queues, feed_in_slices),
}
