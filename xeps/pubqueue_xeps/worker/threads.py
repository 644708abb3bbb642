"""Runs each call of a blocking function in its own thread.

There is no pool: it would need as many threads as may run at once, and would wait for them at the end of the program.
These threads are daemons, so a program ends even if one of them hangs; a thread cannot be cancelled.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def in_thread(call: Callable[[], object], name: str) -> asyncio.Future[object]:
    """Call a function in a new thread, with this context's variables; the future gets its result or exception.

    Cancelling the future does not stop the thread.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[object] = loop.create_future()
    context = copy_context()

    def work() -> None:
        try:
            result, error = context.run(call), None
        except BaseException as raised:
            result, error = None, raised
        with suppress(RuntimeError):  # the loop is closed, and no task is waiting
            loop.call_soon_threadsafe(_finish, ended, result, error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return ended


def _finish(ended: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if ended.cancelled():
        return
    if isinstance(error, StopIteration):  # which no future accepts
        ended.set_exception(RuntimeError("The function raised StopIteration."))
    elif error is not None:
        ended.set_exception(error)
        ended.exception()  # whether a task is waiting or not
    else:
        ended.set_result(result)
