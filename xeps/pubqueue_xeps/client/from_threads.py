"""Waiting, in a thread, for what runs in an event loop of another thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run a coroutine in `loop`, and return its result; one that is no longer waited for is cancelled."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:  # interrupted, above all: no thread waits for it any more
        future.cancel()
        raise
