"""An alarm for code that may loop without end: it counts processor time, so that a slow machine does not set it off."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in a body that uses up this many seconds of processor time."""

    def rung(_signal: int, _frame: object) -> NoReturn:
        raise TimeoutError(f"{seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, rung)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
