"""`python slowed.py SECONDS SLICE serve ...`: pubqueue, whose long work waits SECONDS before each slice, of SLICE winners.

The pause is a timer between two slices, so the service answers all others as ever: a commit of a given number of items
takes at least a given time, on any machine. With `asked` before SECONDS, a pause ends when a client asks how far the commit
is. An asker sees every slice, unless the next question takes longer than SECONDS to come.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from pubqueue.cli import main
from pubqueue.engine.facts import transactions
from pubqueue.engine.reader import CommitRuns, LongWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.decision import Decision, Reply

    Answer = Callable[[Reply], None]

SLICE: Final = transactions.SLICE
"""How many winners a slice has in a service that is as it is."""


def slow_down(seconds: float, *, until_asked: bool = False) -> None:
    """Make every slice of long work wait, once the notices of the last one are sent."""
    sending, joining = LongWork.sent, CommitRuns.join
    paused: list[Callable[[], None]] = []

    def sent(self: LongWork, number: int) -> None:
        go_on = partial(sending, self, number)  # the second time it does nothing
        asyncio.get_running_loop().call_later(seconds, go_on)
        if until_asked:
            paused.append(go_on)

    def join(self: CommitRuns, decision: Decision, answer: Answer) -> Answer | None:
        joined = joining(self, decision, answer)
        while paused:
            asyncio.get_running_loop().call_soon(paused.pop())
        return joined

    LongWork.sent, CommitRuns.join = sent, join


if __name__ == "__main__":
    at = sys.argv.index("serve")
    *asked, seconds, size = sys.argv[1:at]
    transactions.SLICE = int(size)
    transactions.MAX_WINNERS = min(transactions.MAX_WINNERS, int(size))
    slow_down(float(seconds), until_asked=asked == ["asked"])
    main(sys.argv[at:])
