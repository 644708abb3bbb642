"""Facts as the store would hand them to a rule: people, nodes, items, each in one short call."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from pubqueue.model.entities import (
    Draft,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    Principal,
    State,
    Subscription,
)
from pubqueue.model.schedules import Definition, Schedule, Source

NOW: Final = Millis(1_000_000)
FLEETING: Final = True
"""For notices to many: those of plain nodes are for subscribers that are online."""
JOBS: Final = NodeName("jobs")
ANN: Final = Jid("ann@x/1")
BOB: Final = Jid("bob@x/1")
EVE: Final = Jid("eve@x/1")
BOSS: Final = Jid("boss@x/desk")
ETL: Final = Jid("etl@x/spark")

NIGHTLY: Final = Schedule(
    Definition("nightly", "0 3 * * *", "UTC", JOBS, b"<job/>"), Source.COMMAND, Jid("boss@x"), NOW
)
"""A schedule that has nothing to do yet."""


def after(seconds: float) -> Millis:
    """Return the moment that is this many seconds after NOW."""
    return Millis(NOW + round(seconds * 1000))


def who(jid: str, *, admin: bool = False, local: bool = False) -> Principal:
    """Return a principal."""
    return Principal(Jid(jid), admin=admin, local=local)


def queue(*, name: str = JOBS, items: int = 0, subscriptions: int = 2, **config: Any) -> Node:
    """Return a queue node, with pauses that are as long as they say."""
    settings = NodeConfig(queueing=True, **{"backoff_jitter": 0.0, **config})
    return Node(NodeName(name), settings, Jid("boss@x"), NOW, items, subscriptions)


def plain(*, items: int = 0, **config: Any) -> Node:
    """Return a plain node."""
    return Node(JOBS, NodeConfig(**config), Jid("boss@x"), NOW, items)


def waiting(seq: int = 1, **changes: Any) -> Item:
    """Return an item that waits for a subscriber."""
    known = Item(seq, JOBS, ItemId(f"i{seq}"), State.QUEUED, Jid("etl@x"), NOW)
    return replace(known, **changes)


def held(seq: int = 1, holder: str = ANN, **changes: Any) -> Item:
    """Return an item that `holder` works on."""
    lock = {"holder": Jid(holder), "deadline": after(300), "token": 7, "acquired": 1}
    return waiting(seq, **({"state": State.LOCKED} | lock | changes))


def draft(name: str = "i1", payload: bytes = b"<job/>", **changes: Any) -> Draft:
    """Return an item as a publisher publishes it."""
    return Draft(ItemId(name), payload, **changes)


def window(jid: str = ANN, requests: int = 1, **changes: Any) -> Subscription:
    """Return a subscription to JOBS."""
    known = Subscription(JOBS, Jid(jid), f"subid-of-{jid}", requests)
    return replace(known, **changes)
