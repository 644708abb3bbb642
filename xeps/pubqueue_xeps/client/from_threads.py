"""Waiting in one thread for a coroutine in another thread's event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run a coroutine in `loop` and return its result; cancel it if the wait is interrupted."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:  # usually an interrupt: no thread waits for it any more
        future.cancel()
        raise
