"""Connections of an instance that is gone: what they held is released, and their subscriptions end.

A connection of an account of the service has an address with the number of its instance (`core.addresses`). When the
instance has died, or has just begun under a number that another process had before, none of them is there any more.
JIDs are not meant: these are connected to their servers, whatever becomes of an instance.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.app.store.listings import ConnectionsOf
from pubqueue.core.addresses import connection
from pubqueue.core.queue.expire import Departure, Leave

if TYPE_CHECKING:
    from pubqueue.app.broker import Broker
    from pubqueue.app.store.ports import Store, Transaction
    from pubqueue.core.model import Jid

log = structlog.get_logger(__name__)

PAGE: Final = 500
"""Subscriptions of connections that are ended together."""


async def free_connections(broker: Broker, store: Store, instance: int) -> None:
    """End the subscriptions of all connections of the instance, and release what they held.

    Raises:
        StoreError: the store could not be read.

    """
    freed = after = 0
    while rows := await store.read(partial(_page, broker.service, instance, after)):
        after = rows[-1][0]
        gone = [
            jid for jid in dict.fromkeys(jid for _, jid in rows) if _is_of(broker, jid, instance)
        ]
        await asyncio.gather(
            *(broker.handle(Leave(jid, how=Departure.INSTANCE_DIED)) for jid in gone)
        )
        freed += len(gone)
    if freed:
        log.info("connections.freed", instance=instance, connections=freed)


def _page(service: Jid, instance: int, after: int, tx: Transaction) -> list[tuple[int, Jid]]:
    return tx.page(ConnectionsOf(service, instance), after, PAGE)


def _is_of(broker: Broker, jid: Jid, instance: int) -> bool:
    """Say whether it is one: the store has looked for it by a pattern, which may find others too."""
    found = connection(jid, broker.service)
    return found is not None and found.instance == instance
