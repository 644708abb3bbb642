"""Opens the store as soon as it can be reached, and closes it in time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine.ports import StoreError, UnreachableStoreError
from pubqueue.wiring.tasks import tasks, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from pubqueue.config.settings import Settings
    from pubqueue.engine.ports import Store


log = structlog.get_logger(__name__)

CLOSING: Final = 1.5
"""Seconds for the last writes when the service stops, and again for closing the store."""

RETRY_INTERVAL: Final = 1.0
"""Seconds between two attempts to reach the store when the service starts."""


@asynccontextmanager
async def stored(settings: Settings) -> AsyncIterator[Store]:
    """Yield the configured store, and close it at the end."""
    store = settings.make_store()
    try:
        yield store
    finally:
        await close(store)


async def close(store: Store) -> None:
    """Close the store; if that takes more than `CLOSING` seconds, the process ends without it."""
    try:
        async with asyncio.timeout(CLOSING):
            await store.close()
    except (StoreError, TimeoutError) as problem:
        log.error("store.not_closed", why=str(problem) or "it takes too long")  # noqa: TRY400  # no trace


async def reached(stop: asyncio.Event, job: Callable[[], Coroutine[None, None, None]]) -> bool:
    """Run a job on the store, again while it cannot be reached; return whether it succeeded before `stop`."""
    while not stop.is_set():
        try:
            async with tasks([job()]) as (doing,):
                await until(stop, [doing])
                if doing.done():
                    return True
        except UnreachableStoreError as problem:
            log.warning("store.unreachable", why=str(problem))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), RETRY_INTERVAL)
    return False
