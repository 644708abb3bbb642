"""Loads of nodes with very many subscribers, for `bench.pauses`: subscribers are notified, unsubscribed, or excluded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.batches.facts import BOSS, who
from harness.batches.queue_requests import publishes

from pubqueue.engine.rows import AFFILIATIONS, AffiliationRow, Needs, Write, Writes
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    Subscription,
    SubscriptionState,
)
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete, Purge

if TYPE_CHECKING:
    from bench.trickle import CountingStore, Service
    from pubqueue.engine.ports import Transaction
    from pubqueue.model.decision import Request

NEWS: Final = NodeName("news")
AT_ONCE: Final = 5000
CLOSED: Final = Settings({"access_model": "whitelist"})
OPEN: Final = Settings({"access_model": "open"})
PAUSE: Final = 0.05
"""Seconds between two checks whether a load is finished."""


async def lay_crowd(store: CountingStore, size: int, _now: Millis) -> None:
    """Store a plain node with this many subscribers."""
    await _lay(store, size, NodeConfig())


async def lay_pending(store: CountingStore, size: int, _now: Millis) -> None:
    """Store a node with this many pending subscriptions."""
    config = NodeConfig(access_model=AccessModel.AUTHORIZE)
    await _lay(store, size, config, state=SubscriptionState.PENDING, available=False)


async def lay_leases(store: CountingStore, size: int, now: Millis) -> None:
    """Store a plain node with this many subscribers whose leases have expired."""
    await _lay(store, size, NodeConfig(), expire=now)


async def _lay(store: CountingStore, size: int, config: NodeConfig, **facts: Any) -> None:
    node = Node(NEWS, config, Jid("boss@x"), Millis(0), subscriptions=size)
    writes = Writes(Millis(0), nodes=[Write(None, node)])
    boss = AffiliationRow(NEWS, Jid("boss@x"), Affiliation.OWNER)
    writes.of[AFFILIATIONS] = [Write(None, boss)]
    await store.batch(lambda tx: tx.write(writes))
    for begin in range(0, size, AT_ONCE):
        part = range(begin, min(begin + AT_ONCE, size))
        await store.batch(lambda tx, part=part: _subscribe(tx, part, facts))  # type: ignore[misc]  # bound at once


def _subscribe(tx: Transaction, numbers: range, facts: dict[str, Any]) -> None:
    rows = [Subscription(NEWS, Jid(f"reader{n}@x/1"), f"s{n}", 1, **facts) for n in numbers]
    tx.write(Writes(Millis(0), subscriptions=[Write(None, row) for row in rows]))


async def _published(service: Service, size: int, request: Request) -> None:
    """Send a request, and wait until all subscribers are notified."""
    service.reaper.start(service.broker)
    await service.do(request)
    while service.face.news < size:  # noqa: ASYNC110  # no event to wait for
        await asyncio.sleep(PAUSE)


async def publish(service: Service, size: int) -> None:
    """Publish an item."""
    await _published(service, size, publishes("a", node=NEWS, by=BOSS))


async def purge(service: Service, size: int) -> None:
    """Purge the node."""
    await _published(service, size, Purge(who(BOSS), NEWS))


async def delete(service: Service, size: int) -> None:
    """Delete the node, and wait until no subscriber is left."""
    await _published(service, size, Delete(who(BOSS), NEWS))
    jids = {Jid(f"reader{number}@x/1") for number in range(size)}
    assert not (await service.store.read(lambda tx: tx.load(Needs(jids=jids)))).subscriptions
    while (moment := await service.store.read(lambda tx: tx.next_due())) is not None:
        if moment > service.clock():
            return
        await asyncio.sleep(PAUSE)


async def close(service: Service, _size: int) -> None:
    """Close the node, so that the subscribers are excluded."""
    service.reaper.start(service.broker)
    await service.do(Configure(who(BOSS), NEWS, CLOSED))


async def open_to_all(service: Service, size: int) -> None:
    """Open the node, so that pending subscriptions are granted."""
    await _published(service, size, Configure(who(BOSS), NEWS, OPEN))


async def end_leases(service: Service, size: int) -> None:
    """Let the leases end."""
    service.reaper.start(service.broker)
    while service.face.news < size:  # noqa: ASYNC110  # no event to wait for
        await asyncio.sleep(PAUSE)


# fmt: off
CROWD_LOADS: Final = {
    "crowd-publish": (100_000, lay_crowd, publish),
    "crowd-purge":   (100_000, lay_crowd, purge),
    "crowd-delete":  (100_000, lay_crowd, delete),
    "crowd-close":   (100_000, lay_crowd, close),
    "crowd-open":    (100_000, lay_pending, open_to_all),
    "crowd-leases":  (100_000, lay_leases, end_leases),
}
"""By name: the size, the function that fills the store, and the measured work."""
# fmt: on
