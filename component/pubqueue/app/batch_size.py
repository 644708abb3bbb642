"""How much of what waits goes into one batch: the work of a batch is bounded, for all others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.facts.queue.expiring import AT_ONCE
from pubqueue.app.facts.transactions.committing import MAX_WINNERS
from pubqueue.app.facts.transactions.moving import SLICE
from pubqueue.app.store.rows import HELD
from pubqueue.core.limits.request_sizes import size_of
from pubqueue.core.nodes.large_audience import NotifyFormer
from pubqueue.core.nodes.subscriptions.review import ReviewSubscribers
from pubqueue.core.queue.expire import FreeLeft, Leave
from pubqueue.core.queue.force_unlock import Dismiss, FreeHeld
from pubqueue.core.transactions.commit import CommitVersion, LookAtWinners
from pubqueue.core.transactions.moving import MoveWinners

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply

MAX_BATCH_REQUESTS: Final = 512
"""Requests in one batch."""

MAX_BATCH_ITEMS: Final = 2000
"""Items that are published, moved, settled or freed in one batch; the last request may exceed that, for it is taken whole."""

WEIGHTS: Final[dict[type, int]] = {
    LookAtWinners: SLICE,
    MoveWinners: SLICE,
    Leave: HELD,
    FreeLeft: AT_ONCE,
    Dismiss: AT_ONCE,
    FreeHeld: AT_ONCE,
    ReviewSubscribers: MAX_BATCH_ITEMS,  # up to a page of subscriptions goes
    NotifyFormer: MAX_BATCH_ITEMS,
}
"""Requests that are about as many items as are there, up to so many."""


def weight(request: Request) -> int:
    """Return how many items a request may be about, or what is as much work."""
    kind = type(request)
    if kind in WEIGHTS:
        return WEIGHTS[kind]
    if type(request) is CommitVersion:
        return min(sum(part.items for part in request.parts), MAX_WINNERS)
    return size_of(request)


def batch_size(waiting: Sequence[tuple[Request, Callable[[Reply], None]]]) -> int:
    """Return how many of the requests, from the first, go into the next batch."""
    items = 0
    for at, (request, _) in enumerate(waiting[:MAX_BATCH_REQUESTS], 1):
        items += weight(request)
        if items >= MAX_BATCH_ITEMS:
            return at
    return min(len(waiting), MAX_BATCH_REQUESTS)
