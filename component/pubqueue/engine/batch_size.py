"""Chooses the requests of the next batch. The work of a batch is bounded, because all other requests wait for it.

A small request passes large ones that do not fit into the next batch, so it only waits for the
batch under way. If more wait than fit, each account has its share of the batch: so one with a single request does not wait for
the thousands of another. The requests of one account keep their order.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import chain
from typing import TYPE_CHECKING, Final

from pubqueue.engine.facts.queue import AT_ONCE
from pubqueue.engine.facts.transactions import MAX_WINNERS, SLICE
from pubqueue.engine.rows import HELD
from pubqueue.model.decision import singly
from pubqueue.model.entities import account_of
from pubqueue.rules import declare
from pubqueue.rules.audience import NotifyFormer, ReviewSubscribers
from pubqueue.rules.commit import CommitVersion, LookAtWinners
from pubqueue.rules.declare import DeleteUnused
from pubqueue.rules.messages import SLICE as ENDED
from pubqueue.rules.messages import DeliverMessage, DropMessages, ForgetMessages
from pubqueue.rules.moving import MoveWinners
from pubqueue.rules.presence import Arrive, FreeConnections, FreeLeft, Leave, ReachChanged
from pubqueue.rules.publication import Publish
from pubqueue.rules.publish import FeedSlice, LookAtFed, MarkPublish
from pubqueue.rules.settle import Settle
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.together import Together
from pubqueue.rules.unlock import Dismiss, FreeHeld
from pubqueue.rules.validity import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.entities import Jid, NodeName

    Taken = tuple[Request, Callable[[Reply], None]]


MAX_BATCH_REQUESTS: Final = 512
"""Requests in one batch, while batches are quick."""

MIN_BATCH_REQUESTS: Final = 64
"""Requests in one batch, however slow batches are."""

LONG: Final = 0.1
"""Seconds that deciding a batch may take; what takes longer has fewer requests the next time. A request that comes meanwhile waits for two batches."""

MAX_BATCH_ITEMS: Final = 2000
"""Items that are published, moved, settled or freed in one batch. The last request may exceed that, as it is taken whole."""

MAX_UNPASSED_ITEMS: Final = 1000
"""Items up to which requests are taken in their order. A request that would exceed that has batches of its own."""

PUBLISHED: Final = 2
"""The weight of each item of a publish: it may be delivered at once, so it is written twice."""

SETTLED: Final = 4
"""The weight of each id of a retract or an unlock: its item may be delivered again, and its end is logged."""

ARRIVED: Final = 5
"""The weight of an arrival: its subscriptions are looked up. It is not small, because very many may arrive at once."""

SMALL: Final = 4
"""The weight up to which a request passes large ones, so that publishing or settling single items is not delayed."""

MAX_FEEDING: Final = 1_000
"""The maximum number of nodes that are remembered to feed many queues."""

WEIGHTS: Final[dict[type, int]] = {
    Arrive: ARRIVED,
    ReachChanged: ARRIVED,
    LookAtWinners: SLICE,
    MoveWinners: SLICE,
    LookAtFed: SLICE,
    FeedSlice: SLICE,
    MarkPublish: MAX_BATCH_ITEMS,  # up to a thousand messages are kept
    DeleteUnused: declare.SLICE,
    Leave: HELD,
    FreeLeft: AT_ONCE,
    Dismiss: AT_ONCE,
    FreeHeld: AT_ONCE,
    ReviewSubscribers: MAX_BATCH_ITEMS,  # up to a page of subscriptions goes
    NotifyFormer: MAX_BATCH_ITEMS,
    ForgetMessages: ENDED,
    DropMessages: ENDED,
}
"""Requests whose number of items is only known in the store: each counts with its maximum."""


def weight(request: Request) -> int:  # noqa: PLR0911  # a table
    """Return how many items a request names, or the equivalent in work."""
    kind = type(request)
    if kind in WEIGHTS:
        return WEIGHTS[kind]
    match request:
        case Publish():
            return PUBLISHED * len(request.drafts)
        case CommitVersion():
            return min(sum(part.items for part in request.parts), MAX_WINNERS)
        case Together():
            return sum(map(weight, request.parts))
        case Settle():
            return SETTLED * len(request.ids)
        case FreeConnections():
            return min(HELD * len(request.jids), MAX_BATCH_ITEMS)
        case SettleEach():
            return SETTLED * len(request.locks)
        case DeliverMessage():
            return 1 if request.request is None else weight(request.request)
        case StagePublish():
            return PUBLISHED * len(request.publish.drafts)
        case _:
            return size_of(request)


class WaitingRequests:
    """The requests that wait for a batch, in their order."""

    def __init__(self) -> None:
        self._passed: dict[Jid | None, deque[Taken]] = {}
        """By account, requests that did not fit into a batch, and later ones; the account whose turn is next comes first."""
        self._new: list[Taken] = []
        self._turn_of_passed = False
        self._copies: dict[NodeName, int] = {}
        """By node, how many items each published item becomes."""
        self.room = MAX_BATCH_REQUESTS
        """Requests that the next batch may have."""

    def __len__(self) -> int:
        """Return how many requests wait."""
        return sum(map(len, self._passed.values())) + len(self._new)

    def __bool__(self) -> bool:
        """Return whether any wait."""
        return bool(self._passed or self._new)

    def add(self, request: Request, answer: Callable[[Reply], None]) -> None:
        """Append a request."""
        self._new.append((request, answer))

    def take_all(self) -> list[Taken]:
        """Remove and return all requests."""
        taken, self._new = [*chain.from_iterable(self._passed.values()), *self._new], []
        self._passed.clear()
        return taken

    def take_batch(self) -> list[Taken]:
        """Remove and return the requests of the next batch: small ones and passed ones take turns if both wait."""
        if self._passed and (self._turn_of_passed or not self._new):
            self._turn_of_passed = False
            return self._take_passed()
        self._turn_of_passed = True
        return self._take_new() or self._take_passed()

    def learn(self, requests: Sequence[Request], decisions: Sequence[Decision]) -> None:
        """Remember, from a batch that ended early, the nodes that feed so many queues that each publish there is much work."""
        for request, decision in zip(*singly(requests[: len(decisions)], decisions), strict=True):
            if type(request) is Publish and request.drafts:
                copies = decision.work // len(request.drafts)
                self._copies.pop(request.node, None)
                if copies > SMALL and len(self._copies) < MAX_FEEDING:
                    self._copies[request.node] = copies

    def took(self, count: int, seconds: float) -> None:
        """Note how long it took to decide a batch of so many requests, with loading and writing, and without its commit."""
        if seconds > LONG:
            self.room = max(MIN_BATCH_REQUESTS, min(self.room, round(count * LONG / seconds)))
        elif count >= self.room:
            self.room = min(MAX_BATCH_REQUESTS, self.room + self.room // 4)

    def put_back(self, requests: Sequence[Taken]) -> None:
        """Put back requests of the last batch that were not decided, because the requests before them were much work.

        The small ones among them come first in the next batch. The others, and later ones of the same accounts, are passed.
        """
        small: list[Taken] = []
        passed: list[tuple[Jid | None, Taken]] = []
        behind = set(self._passed)
        for one in requests:
            account = _account(one[0])
            if self._weight(one[0]) > SMALL or account in behind:
                passed.append((account, one))
                behind.add(account)
            else:
                small.append(one)
        for account, one in reversed(passed):
            self._passed.setdefault(account, deque()).appendleft(one)
        self._new[:0] = small
        self._turn_of_passed = False

    def _weight(self, request: Request) -> int:
        """Return the weight, including the copies of published items."""
        if type(request) is Together:
            return sum(map(self._weight, request.parts))
        copies = self._copies.get(request.node, 1) if type(request) is Publish else 1
        return weight(request) * copies

    def _take_new(self) -> list[Taken]:
        """Take the small requests that came since, in order, and of each account its share.

        Small ones pass the others, and later ones of the same accounts. An account that has its share keeps all later ones.
        """
        taken: list[Taken] = []
        kept: list[Taken] = []
        items, room = 0, self.room
        shares = self._shares() if len(self._new) > room else None
        for at, one in enumerate(self._new):
            if not room:
                kept += self._new[at:]
                break
            size = self._weight(one[0]) if self._copies else weight(one[0])
            if shares is not None:
                account = _account(one[0])
                share = shares.get(account, 1)
                if share < 1:
                    kept.append(one)
                    continue
                shares[account] = share - (size <= SMALL)
            fits = size <= SMALL and (not self._passed or _account(one[0]) not in self._passed)
            if not fits and (self._passed or items + size > MAX_UNPASSED_ITEMS):
                self._passed.setdefault(_account(one[0]), deque()).append(one)
                continue
            taken.append(one)
            items += size
            room -= 1
        self._new = kept
        return taken

    def _shares(self) -> dict[Jid | None, int]:
        """Return how many small requests of each account a batch takes: as many from each, and what some do not need goes to those with more."""
        small = (_account(one) for one, _ in self._new if self._weight(one) <= SMALL)
        shares = dict(sorted(Counter(small).items(), key=lambda one: one[1]))
        room = self.room
        for at, (account, count) in enumerate(shares.items()):
            shares[account] = min(count, max(room // (len(shares) - at), 1))
            room -= shares[account]
        return shares

    def _take_passed(self) -> list[Taken]:
        """Take as many of the passed requests as the batch has room for, one of each account in turn."""
        taken: list[Taken] = []
        items = 0
        while self._passed and items < MAX_BATCH_ITEMS and len(taken) < self.room:
            account, line = next(iter(self._passed.items()))
            size = self._weight(line[0][0])
            if taken and size > MAX_BATCH_ITEMS:  # whatever its size, it goes alone
                break
            taken.append(line.popleft())
            items += size
            del self._passed[account]
            if line:
                self._passed[account] = line  # behind all other accounts
        return taken


def _account(request: Request) -> Jid | None:
    """Return the account that sent the request, arrives, leaves or could not be reached; None for the service itself."""
    by = getattr(getattr(request, "publish", request), "by", None)
    if by is not None:
        return account_of(by.jid)
    jid = getattr(request, "jid", None) or getattr(request, "to", None)
    return None if jid is None else account_of(jid)
