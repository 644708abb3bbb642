"""How much of what waits goes into one batch: the work of a batch is bounded, for all others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.facts.committing import MOST_WINNERS
from pubqueue.app.facts.moving import SLICE
from pubqueue.core.nodes.crowd import TellFormer
from pubqueue.core.nodes.review import ReviewSubscribers
from pubqueue.core.queue.publication import Publish
from pubqueue.core.transactions.commit import CommitVersion, LookAtWinners
from pubqueue.core.transactions.moving import MoveWinners
from pubqueue.core.transactions.staging import StagePublish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply

LARGEST: Final = 512
"""Requests in one batch."""

MOST_ITEMS: Final = 2000
"""Items that are published or moved in one batch; the last request may exceed that, for it is taken whole."""


def share(waiting: Sequence[tuple[Request, Callable[[Reply], None]]]) -> int:
    """Return how many of the requests, from the first, go into the next batch."""
    items = 0
    for at, (request, _) in enumerate(waiting[:LARGEST], 1):
        if isinstance(request, StagePublish):
            items += len(request.publish.drafts)
        elif isinstance(request, Publish):
            items += len(request.drafts)
        elif isinstance(request, CommitVersion):
            items += min(sum(part.items for part in request.parts), MOST_WINNERS)
        elif isinstance(request, LookAtWinners | MoveWinners):
            items += SLICE
        elif isinstance(request, ReviewSubscribers | TellFormer):
            items += MOST_ITEMS  # up to a page of subscriptions goes
        if items >= MOST_ITEMS:
            return at
    return min(len(waiting), LARGEST)
