"""Which of the waiting requests go into the next batch: the work of a batch is bounded, because all others wait for it.

A small request passes large ones that have no room in the next batch, so it never waits for more
than the batch under way. The requests of one account keep their order.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from pubqueue.app.facts.queue.expiring import AT_ONCE
from pubqueue.app.facts.transactions.committing import MAX_WINNERS
from pubqueue.app.facts.transactions.moving import SLICE
from pubqueue.app.store.rows import HELD
from pubqueue.core.addresses import account_of
from pubqueue.core.limits.request_sizes import size_of
from pubqueue.core.nodes.large_audience import NotifyFormer
from pubqueue.core.nodes.subscriptions.reachability import ReachChanged
from pubqueue.core.nodes.subscriptions.review import ReviewSubscribers
from pubqueue.core.queue.expire import Arrive, FreeLeft, Leave
from pubqueue.core.queue.force_unlock import Dismiss, FreeHeld
from pubqueue.core.queue.publication import Publish
from pubqueue.core.queue.settle import Settle
from pubqueue.core.transactions.commit import CommitVersion, LookAtWinners
from pubqueue.core.transactions.moving import MoveWinners
from pubqueue.core.transactions.staging import StagePublish

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Jid

    Taken = tuple[Request, Callable[[Reply], None]]

MAX_BATCH_REQUESTS: Final = 512
"""Requests in one batch."""

MAX_BATCH_ITEMS: Final = 2000
"""Items that are published, moved, settled or freed in one batch; the last request may exceed that, for it is taken whole."""

MAX_UNPASSED_ITEMS: Final = 1000
"""Items up to which requests are taken in their order; what would exceed that is great work, and has batches of its own."""

PUBLISHED: Final = 2
"""What each item of a publish counts: it may be delivered at once, so it is written twice."""

SETTLED: Final = 4
"""What each id of a retract or an unlock counts: its item may be delivered again, and its end is logged."""

ARRIVED: Final = 5
"""What an arrival counts: its subscriptions are looked up. It is not small, for very many may arrive at once."""

SMALL: Final = 4
"""The weight up to which a request passes large ones, so that publishing or settling single items is not delayed."""

WEIGHTS: Final[dict[type, int]] = {
    Arrive: ARRIVED,
    ReachChanged: ARRIVED,
    LookAtWinners: SLICE,
    MoveWinners: SLICE,
    Leave: HELD,
    FreeLeft: AT_ONCE,
    Dismiss: AT_ONCE,
    FreeHeld: AT_ONCE,
    ReviewSubscribers: MAX_BATCH_ITEMS,  # up to a page of subscriptions goes
    NotifyFormer: MAX_BATCH_ITEMS,
}
"""Requests about as many items as exist, up to a maximum."""


def weight(request: Request) -> int:
    """Return how many items a request may be about, or what is as much work."""
    kind = type(request)
    if kind in WEIGHTS:
        return WEIGHTS[kind]
    match request:
        case CommitVersion():
            return min(sum(part.items for part in request.parts), MAX_WINNERS)
        case Settle():
            return SETTLED * len(request.ids)
        case Publish() | StagePublish():
            return PUBLISHED * size_of(request)
        case _:
            return size_of(request)


class WaitingRequests:
    """The requests that wait for a batch, in their order."""

    def __init__(self) -> None:
        self._passed: deque[Taken] = deque()
        """Requests that had no room in a batch, and later ones of the same accounts."""
        self._accounts: Counter[Jid | None] = Counter()
        """The accounts of these."""
        self._new: list[Taken] = []
        self._turn_of_passed = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._passed) + len(self._new)

    def add(self, request: Request, answer: Callable[[Reply], None]) -> None:
        """Append a request."""
        self._new.append((request, answer))

    def take_all(self) -> list[Taken]:
        """Take out all that wait."""
        taken, self._new = [*self._passed, *self._new], []
        self._passed.clear()
        self._accounts.clear()
        return taken

    def take_batch(self) -> list[Taken]:
        """Take out the requests of the next batch: small ones and those that passed by turns, where both wait."""
        if self._passed and (self._turn_of_passed or not self._new):
            self._turn_of_passed = False
            return self._take_passed()
        self._turn_of_passed = True
        return self._take_new() or self._take_passed()

    def _take_new(self) -> list[Taken]:
        """Take the small requests that came since, from the first.

        The others, and later ones of the same accounts, are passed by small ones. Each request is
        examined once for that, however long it waits.
        """
        taken: list[Taken] = []
        items = seen = 0
        for one in self._new:
            if len(taken) >= MAX_BATCH_REQUESTS:
                break
            seen += 1
            size = weight(one[0])
            if not self._passed and (size <= SMALL or items + size <= MAX_UNPASSED_ITEMS):
                items += size
                taken.append(one)
            elif size <= SMALL and _account(one[0]) not in self._accounts:
                taken.append(one)
            else:
                self._passed.append(one)
                self._accounts[_account(one[0])] += 1
        self._new = self._new[seen:]
        return taken

    def _take_passed(self) -> list[Taken]:
        """Take out of those that were passed as many as there is room for."""
        taken: list[Taken] = []
        items = 0
        while self._passed and items < MAX_BATCH_ITEMS and len(taken) < MAX_BATCH_REQUESTS:
            one = self._passed.popleft()
            taken.append(one)
            items += weight(one[0])
            account = _account(one[0])
            self._accounts[account] -= 1
            if not self._accounts[account]:
                del self._accounts[account]
        return taken


def _account(request: Request) -> Jid | None:
    """Return the account that asks, arrives, leaves or could not be reached; None for the service itself."""
    by = getattr(getattr(request, "publish", request), "by", None)
    if by is not None:
        return account_of(by.jid)
    jid = getattr(request, "jid", None) or getattr(request, "to", None)
    return None if jid is None else account_of(jid)
