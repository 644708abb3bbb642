"""Connections of an instance that is gone: their items are released, and their subscriptions end.

A connection of an account of the service has an address with the number of its instance (`core.addresses`). If the
instance has died, or has just begun under a number that another process had before, none of them exists any more.
JIDs are not affected: these are connected to their servers, whatever happens to an instance.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.app.store.item_listings import HoldersOf
from pubqueue.app.store.listings import ConnectionsOf
from pubqueue.model.entities import connection
from pubqueue.rules.presence import Departure, Leave

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.broker import Broker
    from pubqueue.app.store.ports import Store, Transaction
    from pubqueue.model.entities import Jid

log = structlog.get_logger(__name__)

PAGE: Final = 500
"""Connections that are freed together."""


async def free_connections(broker: Broker, store: Store, instance: int) -> None:
    """End the subscriptions of all connections of the instance, release their items, and drop their stored notices.

    Some hold items without a subscription: they have ended it before settling all items.

    Raises:
        StoreError: the store could not be read.

    """
    await broker.forwarding.drop_all(instance)
    freed = after = 0
    while rows := await store.read(partial(_page, broker.service, instance, after)):
        after = rows[-1][0]
        freed += await _free(broker, instance, (jid for _, jid in rows))
    last = None
    while holders := await store.read(partial(_holders, broker.service, instance, last)):
        last = holders[-1]
        freed += await _free(broker, instance, holders)
    if freed:
        log.info("connections.freed", instance=instance, connections=freed)


async def _free(broker: Broker, instance: int, jids: Iterable[Jid]) -> int:
    """Submit a leave for each address that is a connection of the instance, and return how many there are."""
    gone = [jid for jid in dict.fromkeys(jids) if _is_of(broker, jid, instance)]
    await asyncio.gather(*(broker.handle(Leave(jid, how=Departure.INSTANCE_DIED)) for jid in gone))
    return len(gone)


def _page(service: Jid, instance: int, after: int, tx: Transaction) -> list[tuple[int, Jid]]:
    return tx.page(ConnectionsOf(service, instance), after, PAGE)


def _holders(service: Jid, instance: int, after: Jid | None, tx: Transaction) -> list[Jid]:
    return tx.page(HoldersOf(service, instance), after, PAGE)


def _is_of(broker: Broker, jid: Jid, instance: int) -> bool:
    """Return whether the address is a connection of the instance: the store's pattern may match others too."""
    found = connection(jid, broker.service)
    return found is not None and found.instance == instance
