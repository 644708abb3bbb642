"""Ctrl-C for the programs of tests, also where the tests themselves are not to hear it.

A shell that starts something in the background has it ignore SIGINT and SIGQUIT, and whatever that starts inherits it: a program
that ends by Ctrl-C would go on for ever. What a process has a handler for is not inherited as ignored.
"""

from __future__ import annotations

import signal
from typing import Final

INTERRUPTS: Final = (signal.SIGINT, signal.SIGQUIT)


def hear() -> None:
    """Let what this process starts from now on end by SIGINT and SIGQUIT, as at a terminal."""
    for number in INTERRUPTS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _OF_PYTHON[number])


_OF_PYTHON: Final = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL}
