"""`python slowed.py SECONDS SLICE serve ...`: pubqueue, whose long work waits SECONDS before each slice, of SLICE winners.

The pause is a timer between two slices, so the service answers all others as ever: a commit of a given number of items
takes at least a given time, on any machine.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from pubqueue.cli import main
from pubqueue.engine.facts import transactions
from pubqueue.engine.reader import LongWork

SLICE: Final = transactions.SLICE
"""How many winners a slice has in a service that is as it is."""


def slow_down(seconds: float) -> None:
    """Make every slice of long work wait, once the notices of the last one are sent."""
    original = LongWork.sent

    def sent(self: LongWork, number: int) -> None:
        asyncio.get_running_loop().call_later(seconds, original, self, number)

    LongWork.sent = sent


if __name__ == "__main__":
    _, seconds, size, *command = sys.argv
    transactions.SLICE = int(size)
    transactions.MAX_WINNERS = min(transactions.MAX_WINNERS, int(size))
    slow_down(float(seconds))
    main(command)
