"""The steps of the store contract: make changes, and say what is there afterwards."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from harness.facts import ANN, JOBS, NOW, after, draft, queue
from msgspec.structs import replace

from pubqueue.core import changes as c
from pubqueue.core.model import (
    ItemId,
    Jid,
    Millis,
    NodeName,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.ports import Store, Transaction
    from pubqueue.core.changes import Change
    from pubqueue.core.model import Item


DEAD = NodeName("jobs-dead")
EMPTY = queue(subscriptions=0)
ANN_ACCOUNT = Jid("ann@x")
ENOUGH = 1_000_000
"""Bytes of payload, more than there are."""
IN_TIME = after(300)


class BrokenError(Exception):
    """Something that goes wrong in the middle of a transaction."""


def add(name: str, *, node: NodeName = JOBS, **facts) -> c.AddItem:
    """Return the change that adds an item; `facts` are of the item or of its draft."""
    of_draft = {key: facts.pop(key) for key in ("payload", "priority", "headers") if key in facts}
    known = {"state": State.QUEUED, "due": None, "expires": None} | facts
    return c.AddItem(node, draft(name, **of_draft), Jid("etl@x"), NOW, **known)


async def make(store: Store, *changes: Change) -> None:
    await store.batch(lambda tx: tx.apply(changes))


async def items(store: Store, *names: str, node: NodeName = JOBS) -> list[Item]:
    """Return the items of these names, all of which must be there."""
    found = await store.batch(lambda tx: [tx.item(node, ItemId(name)) for name in names])
    assert None not in found
    return found


async def lock(
    store: Store, name: str, holder: str = ANN, *, token: int = 7, deadline: Millis = IN_TIME
) -> Item:
    """Lock an item and return it as it is then."""
    (item,) = await items(store, name)
    await make(store, c.Lock(item, Jid(holder), token, deadline, NOW))
    (item,) = await items(store, name)
    return item


def broken(tx: Transaction, inside: Callable[[], object]) -> None:
    """Do what is inside a savepoint, and have it raise."""
    with suppress(BrokenError), tx.savepoint():
        inside()
        raise BrokenError


def release(item: Item, **changes) -> c.Release:
    known = c.Release(item, State.QUEUED, None, failed=item.failed, released=item.released + 1)
    return replace(known, **changes)
