"""Reports that are never repeated: presence, and deliveries that bounced.

A request that the store could not accept is refused, and its principal tries again. Servers never
repeat presence or a bounce: these are kept here, and retried until the store accepts them. Those of
one address are decided in the order in which they came, and before any later request of the
address.

Any address can send such reports, and while the store is unavailable it cannot be asked which
accounts it knows. So the known accounts are remembered beforehand; strangers share a bound of their
own, and cannot displace the reports of accounts that hold items.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine.batch_size import weight
from pubqueue.model.changes import AddSubscription, NoteResource, SetAvailable, SetWindow
from pubqueue.model.decision import Recovered
from pubqueue.model.entities import account_of
from pubqueue.rules.presence import Arrive, Bounce, FreeConnections, FreeLeft, Leave
from pubqueue.rules.subscribe import Subscribe
from pubqueue.rules.subscribers import SetSubscriptions
from pubqueue.rules.unlock import Recover

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.entities import Jid

    Taken = tuple[Request, Callable[[Reply], None]]


log = structlog.get_logger(__name__)

Word = Arrive | Leave | FreeLeft | FreeConnections | Bounce
"""A report that is never repeated, and the remaining work for it."""

RETRY: Final = 1.0
"""Seconds until reports are retried, after the store could not accept them."""

STRANGERS: Final = 1 << 20
"""Approximate maximum of bytes kept of strangers' reports; the oldest address is dropped first."""

PEOPLE: Final = 16 << 20
"""The same for accounts that are known here."""

BESIDE_REPORT: Final = 500
"""Bytes that a report takes in addition to its address."""

REMEMBERED: Final = 100_000
"""Accounts that are remembered as known here; beyond that the least recently seen is forgotten."""


SHOWING: Final = frozenset({Arrive, Subscribe, SetSubscriptions, Recover})
"""Requests whose decisions show which accounts are known here."""


class Acquaintances:
    """Accounts that subscribe here or hold items, by a number for each: 100 bytes, however long the address."""

    def __init__(self) -> None:
        self._known: dict[int, None] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._known)

    def meet(self, jid: Jid) -> None:
        """Remember the account of the JID, as the most recently seen."""
        number = hash(account_of(jid))
        self._known.pop(number, None)
        self._known[number] = None
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def learn(self, decision: Decision) -> None:
        """Remember the accounts that a committed decision shows to be known here."""
        for change in decision.changes:
            if isinstance(change, AddSubscription):
                self.meet(change.subscription.jid)
            elif isinstance(change, NoteResource | SetAvailable | SetWindow):
                self.meet(change.jid)
        if isinstance(decision.reply, Recovered):
            for holder in decision.reply.holders:
                self.meet(holder)

    def knows(self, jid: Jid) -> bool:
        """Return whether the account of the JID is remembered."""
        return hash(account_of(jid)) in self._known


class _Room:
    """Reports by address, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self.of: dict[Jid, list[Word]] = {}
        self.count = 0
        self._byte_count = 0
        self._most = most

    def put(self, address: Jid, words: list[Word]) -> int:
        """Append the reports of an address; return how many had to be dropped."""
        if words:
            self.of[address] = words
            self.count += len(words)
            self._byte_count += _report_weight(address, words)
        given_up = 0
        while self._byte_count > self._most:
            given_up += len(self.take(next(iter(self.of))))
        return given_up

    def take(self, address: Jid) -> list[Word]:
        """Remove and return the reports of the address."""
        words = self.of.pop(address, [])
        self.count -= len(words)
        self._byte_count -= _report_weight(address, words)
        return words


class PresenceRetry:
    """The reports that wait for the store; `is_due` means that it is time to retry them, until one has failed.

    `on_due` is called when it is time.
    """

    def __init__(
        self, acquaintances: Acquaintances, on_due: Callable[[], None] = lambda: None
    ) -> None:
        self._acquaintances = acquaintances
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._people, self._strangers = _Room(PEOPLE), _Room(STRANGERS)
        self._has_given_up = False
        self.is_due = self.any_kept = False

    def __bool__(self) -> bool:
        """Return whether any are kept."""
        return self.any_kept

    def __len__(self) -> int:
        """Return how many are kept."""
        return self._people.count + self._strangers.count

    def keep(self, word: Word) -> None:
        """Append a report to those of its address; equivalent ones are merged."""
        self.is_due = False
        address = word.to if isinstance(word, Bounce) else word.jid
        words = self._words_of(address)
        _merge(words, word)
        room = self._people if self._acquaintances.knows(address) else self._strangers
        if room.put(address, words) and not self._has_given_up:
            self._has_given_up = True  # once: there may be thousands
            log.error("presence.given_up", strangers=room is self._strangers)
        self._look()

    def retry_later(self) -> None:
        """Retry all of them after a while."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETRY, self.retry_now)

    def retry_now(self) -> None:
        """Retry all of them without waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self:
            self.is_due = True
            self._on_due()

    def some(self, most: int) -> list[Taken]:
        """Return reports about n items or a few more, to be retried now; those that fail have to be kept again."""
        found: list[Taken] = []
        size = 0
        for room in (self._people, self._strangers):
            while room.of and size < most:
                taken = self._take(next(iter(room.of)))
                size += sum(weight(word) for word, _ in taken)
                found += taken
        self.is_due = bool(self)
        if not self:
            self._has_given_up = False
        return found

    def before(self, requests: list[Taken]) -> list[Taken]:
        """Return the requests, each preceded by the reports of its principal."""
        found: list[Taken] = []
        for taken in requests:
            address = _address_of(taken[0])
            if address is not None:
                found += self._take(address)
            found.append(taken)
        return found

    def _words_of(self, address: Jid) -> list[Word]:
        """Remove and return the reports of the address; it may have been a stranger's before and is not any more."""
        words = self._people.take(address) or self._strangers.take(address)
        self._look()
        return words

    def _look(self) -> None:
        self.any_kept = bool(self._people.of or self._strangers.of)

    def _take(self, address: Jid) -> list[Taken]:
        return [(word, _ignore) for word in self._words_of(address)]


def _report_weight(address: Jid, words: list[Word]) -> int:
    more = sum(len(word.jids) - 1 for word in words if isinstance(word, FreeConnections))
    return (len(words) + more) * (2 * len(address) + BESIDE_REPORT)


def _merge(words: list[Word], word: Word) -> None:
    """Add a report. Of presence the last two suffice: that it left, and that it is here again, or the reverse."""
    if isinstance(word, Bounce | FreeLeft | FreeConnections):
        if word not in words:
            words.append(word)
        return
    presence = [at for at, known in enumerate(words) if isinstance(known, Arrive | Leave)]
    if presence and type(words[presence[-1]]) is type(word):
        words[presence[-1]] = word  # another instance may have seen the address in between
        return
    words.append(word)
    if len(presence) > 1:
        del words[presence[0]]


def _address_of(request: Request) -> Jid | None:
    """Return the requester, None if it is the service itself."""
    if isinstance(request, Arrive | Leave | FreeLeft | FreeConnections):
        return request.jid
    if isinstance(request, Bounce):
        return request.to
    by = getattr(request, "by", None)
    return None if by is None else by.jid


def _ignore(_reply: Reply) -> None:
    """Do nothing: the sender got its answer when the report was kept."""


# Addresses that sent presence recently: a worker sends its presence and subscribes, in either order.
#
# Presence of strangers is not stored, because any address can send it. The latest are remembered for a
# while, as many as there is room for. When one of them subscribes, it is known to be available, and so
# are the other resources of its account.

MAX_BYTES: Final = 256 * 1024
"""Approximate maximum of remembered bytes; the oldest are forgotten first."""

MAX_RESOURCES: Final = 100
"""Resources of one account that are remembered."""

BESIDE_ADDRESS: Final = 200
"""Bytes that an address takes in addition to its letters."""


class Newcomers:
    """Full JIDs by account, the first to come first."""

    def __init__(self) -> None:
        self._of: dict[Jid, dict[Jid, None]] = {}
        self.byte_count = 0
        """The approximate total of bytes."""

    def came(self, jid: Jid) -> None:
        """Remember that the full JID is here."""
        account = account_of(jid)
        of = self._of.setdefault(account, {})
        if jid in of or jid == account:
            return
        of[jid] = None
        self.byte_count += _address_weight(jid)
        if len(of) > MAX_RESOURCES:
            self.left(next(iter(of)))
        while self.byte_count > MAX_BYTES:
            self.left(next(iter(next(iter(self._of.values())))))

    def left(self, jid: Jid) -> None:
        """Forget it."""
        account = account_of(jid)
        of = self._of.get(account, {})
        if jid not in of:
            return
        del of[jid]
        self.byte_count -= _address_weight(jid)
        if not of:
            del self._of[account]

    def forget(self) -> None:
        """Forget all, because the stream is lost: servers report only once who leaves."""
        self._of.clear()
        self.byte_count = 0

    def of(self, account: Jid) -> tuple[Jid, ...]:
        """Return the remembered resources of the account."""
        return tuple(self._of.get(account, ()))


def _address_weight(jid: Jid) -> int:
    return 2 * len(jid) + BESIDE_ADDRESS  # its account is stored as well
