"""A process that serves from a store: it renews its lease all the time, writes on demand, and enters again when it is fenced.

suspended.py ADDRESS LEASE
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from pubqueue.engine.ports import FencedError, StoreError
from pubqueue.stores import store_at
from pubqueue.stores.postgres import instances as of_postgres
from pubqueue.stores.sql import columns
from pubqueue.stores.sqlite import instances as of_sqlite

if TYPE_CHECKING:
    from pubqueue.engine.ports import Store

PERIOD = 0.02


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def entered(address: str) -> Store:
    store = store_at(address)
    await store.open()
    await store.instances.enter()
    say("entered")
    return store


async def renewing(store: Store) -> None:
    while True:
        with suppress(StoreError):
            await store.instances.renew()
        await asyncio.sleep(PERIOD)


async def main(address: str) -> None:
    store = await entered(address)
    lease = asyncio.create_task(renewing(store))
    while await asyncio.to_thread(sys.stdin.readline):
        try:
            say(f"committed {await store.batch(lambda tx: tx.number('item', 1))}")
        except FencedError:
            say("fenced")
            lease.cancel()
            await store.close()
            store = await entered(address)
            lease = asyncio.create_task(renewing(store))
    lease.cancel()
    await store.close()


if __name__ == "__main__":
    for module in (columns, of_postgres, of_sqlite):
        module.LEASE = float(sys.argv[2])  # type: ignore[attr-defined]  # a shorter one
    asyncio.run(main(sys.argv[1]))
