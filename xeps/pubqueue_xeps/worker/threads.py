"""Runs each call of a blocking function in its own thread.

There is no pool: it would need as many threads as may run at once, and would wait for them at the end of the program.
These threads are daemons, so a program ends even if one of them hangs; a thread cannot be cancelled.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
import signal
import threading
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


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


# SIGTERM and SIGINT: the first one stops the workers, the second kills the program.

_stops: dict[tuple[asyncio.AbstractEventLoop, signal.Signals], list[Callable[[], bool]]] = {}


@contextmanager
def stopping_on(signals: Iterable[signal.Signals], stop: Callable[[], bool]) -> Iterator[None]:
    """Call `stop` on the first of `signals`; the second has its default effect.

    So has the first one, if no `stop` has anything to finish; each returns whether it has. All workers in one event
    loop are stopped together. Outside the main thread this does nothing, because Python cannot catch signals there.
    """
    loop = asyncio.get_running_loop()
    keys = [(loop, signal.Signals(number)) for number in signals]
    if threading.current_thread() is not threading.main_thread():
        keys = []
    for key in keys:
        if key not in _stops:
            _stops[key] = []
            loop.add_signal_handler(key[1], _caught, key)
        _stops[key].append(stop)
    try:
        yield
    finally:
        for key in keys:
            _forget(key, stop)


def _caught(key: tuple[asyncio.AbstractEventLoop, signal.Signals]) -> None:
    stops = list(_stops[key])
    _stops[key].clear()
    _release(key)
    stopped = [stop() for stop in stops]
    if not any(stopped):
        signal.raise_signal(key[1])


def _forget(
    key: tuple[asyncio.AbstractEventLoop, signal.Signals], stop: Callable[[], bool]
) -> None:
    waiting = _stops.get(key)
    if waiting and stop in waiting:
        waiting.remove(stop)
        if not waiting:
            _release(key)


def _release(key: tuple[asyncio.AbstractEventLoop, signal.Signals]) -> None:
    del _stops[key]
    key[0].remove_signal_handler(key[1])


# Trims tracebacks to the frames of the user's own program.

HOME: Final = str(Path(__file__).parents[1])
CALLERS: Final = (
    *(str(Path(module.__file__ or "").parent) for module in (asyncio, concurrent.futures)),
    str(selectors.__file__),
)
"""Files between this library and a handler: removed before the first frame of the user's program, kept after it."""


def trimmed(error: BaseException) -> BaseException:
    """Remove our frames from the tracebacks of an exception and of its causes; return the exception."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _chain(_of_the_user(one.__traceback__))
        left += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
    return error


def _of_the_user(trace: TracebackType | None) -> list[TracebackType]:
    kept: list[TracebackType] = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_ours(file) and (kept or not is_theirs(file)):
            kept.append(trace)
        trace = trace.tb_next
    return kept


def is_ours(file: str) -> bool:
    """Return whether a file belongs to this library."""
    return file.startswith(HOME)


def is_theirs(file: str) -> bool:
    """Return whether a file belongs to the code that calls handlers for this library."""
    return file.startswith(CALLERS)


def _chain(kept: list[TracebackType]) -> TracebackType | None:
    made: TracebackType | None = None
    for trace in reversed(kept):
        made = TracebackType(made, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return made
