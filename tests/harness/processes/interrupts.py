"""Ctrl-C for the programs of tests, even if the tests themselves are to ignore it.

A program that a shell starts in the background ignores SIGINT and SIGQUIT, and its children inherit that: a program that ends by
Ctrl-C would run without end. A signal for which a process has a handler is not inherited as ignored.
"""

from __future__ import annotations

import signal
from typing import Final

INTERRUPTS: Final = (signal.SIGINT, signal.SIGQUIT)


def hear() -> None:
    """Let processes that this one starts from now on end by SIGINT and SIGQUIT, as at a terminal."""
    for number in INTERRUPTS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _OF_PYTHON[number])


_OF_PYTHON: Final = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL}
