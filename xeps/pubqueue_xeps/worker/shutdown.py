"""SIGTERM and SIGINT: the first one stops the workers, the second kills the program."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

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
