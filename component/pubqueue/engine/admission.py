"""Admission: who may come in with one more request. One for the process, whatever the protocol, before anything is loaded."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.engine.table import READS
from pubqueue.model.limits import EVERYBODY, Used, payers
from pubqueue.rules.validity import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Jid, Principal


# Counts the requests of clients that are accepted and not answered, for each account and in total, over all protocols together.
#
# An account with too much under way waits. A protocol with a connection for each client stops reading those of the account; how much
# one may have then depends on how much is left, so that there is always room for an account that has nothing under way
# (`model.limits.share`). A protocol with one stream for all refuses the account with *wait*, and pauses the stream when the total is
# too large. What waits stays in the sockets of its senders. So clients that are faster than the disk use a limited amount of memory
# here, for as long as they continue, and others go on.

REMEMBERED: Final = 10_000
"""Maximum number of accounts with a recorded cost. Beyond it the costs of idle accounts are dropped; those of their servers stay."""

REFUSED: Final = 0.0005
"""Seconds that a refused request has cost, if its protocol does not measure it."""

REFUSED_BYTE: Final = 2e-8
"""Seconds that each byte of it has cost."""

LOOK: Final = 0.05
"""Seconds between two looks whether the cost of refusals is forgiven."""


class Load(Struct, frozen=True):
    """The weight of one request, and the budgets in which it counts."""

    byte_count: int
    items: int
    reads: int
    used: tuple[Used, ...]


class Admission:
    """Counts unanswered requests, and says who has to wait.

    Those who watch are notified when the total reaches its bound, and when half of it is done.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[Jid, Used] = {}
        self._payers = lru_cache(maxsize=4096)(payers)
        self._watchers: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._waiting: dict[tuple[Jid, bool], deque[tuple[Principal, Callable[[], None]]]] = {}
        """What waits until its account may come in again, to read or to do anything else; who is next comes first."""
        self._looking: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self.count = 0
        self.byte_count = 0
        self.reads = 0
        self.is_full = False

    def watch(self, on_full: Callable[[], None], on_room: Callable[[], None]) -> None:
        """Notify a protocol whose clients share one stream when to pause it, and when to go on."""
        self._watchers.append((on_full, on_room))

    # --- judged before anything is read or loaded -------------------------------------------------

    def beyond(self, by: Principal) -> str:
        """Return why the requester has to wait, or "" if the request may be read. The head of a stanza is enough."""
        for who, budget in self._payers(by.account, by.local):
            if who in self._used:
                used = self._used[who]
                if why := used.beyond(budget, self._clock() if used.refused else used.since):
                    return _named(who, why)
        return ""

    def beyond_reading(self, by: Principal) -> str:
        """Return why the requester has to wait with read requests, or ""."""
        for who, budget in self._payers(by.account, by.local):
            used = self._used.get(who)
            if used is not None and used.reads >= budget.reads:
                return _named(who, f"{budget.reads} read requests are in progress")
        return "too many read requests are in progress" if self._is_full_of_reads else ""

    @property
    def _is_full_of_reads(self) -> bool:
        return self.reads >= EVERYBODY.reads

    def wait(self, by: Principal, call: Callable[[], None], *, reads: bool = False) -> None:
        """Call once, when the account may come in again. Accounts take turns, each with one call."""
        self._waiting.setdefault((by.account, reads), deque()).append((by, call))
        self._look_soon()

    def may_enter(self, by: Principal, *, reads: bool = False) -> bool:
        """Return whether the account may come in with one more request now: no other one of its own waits."""
        return (by.account, reads) not in self._waiting and not self.stops(by, reads=reads)

    async def turn(self, by: Principal, *, reads: bool = False) -> None:
        """Return when the account may come in with one more request."""
        while not self.may_enter(by, reads=reads):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.wait(by, partial(_pass_on, turn), reads=reads)
            await turn
            if not self.stops(by, reads=reads):
                return

    def stops(self, by: Principal, *, reads: bool = False) -> bool:
        """Return whether the account has to wait: it has what one may have, or what is its share while others have much."""
        for who, budget in self._payers(by.account, by.local):
            if who in self._used and self._used[who].has_its_share(
                budget, self.count, self.byte_count
            ):
                return True
        return bool(self.beyond(by) or (reads and self.beyond_reading(by)))

    # --- counted --------------------------------------------------------------------------------

    def charge(self, by: Principal, seconds: float) -> None:
        """Count the cost of a refused request against the principal."""
        now = self._clock()
        for who, budget in self._payers(by.account, by.local):
            self._of(who).charge(seconds, budget, now)

    def refused(self, by: Principal, size: int = 0) -> None:
        """Charge a request of so many bytes that its protocol has refused, and whose cost it does not measure."""
        self.charge(by, REFUSED + size * REFUSED_BYTE)

    def counted(
        self, by: Principal, request: Request, size: int, answer: Callable[[Reply], None]
    ) -> Callable[[Reply], None]:
        """Count a request of so many bytes, and return the function that has to get its reply."""
        load = self.take(by, size, request)

        def answered(reply: Reply) -> None:
            self.done(load)
            answer(reply)

        return answered

    def take(self, by: Principal, byte_count: int, request: Request | None = None) -> Load:
        """Count an accepted request; None counts as a request about a single item."""
        known = self._used
        payers = self._payers(by.account, by.local)
        used = tuple([known[who] if who in known else self._of(who) for who, _ in payers])
        items = 1 if request is None else size_of(request)
        load = Load(byte_count, items, int(type(request) in READS), used)
        for one in used:
            one.requests += 1
            one.byte_count += byte_count
            one.items += items
            one.reads += load.reads
        self.reads += load.reads
        if not load.reads:  # reads wait in their own queue, and block no other requests
            self.count += 1
            self.byte_count += byte_count
            enough = self.count >= EVERYBODY.requests or self.byte_count >= EVERYBODY.byte_count
            if enough and not self.is_full:
                self.is_full = True
                for on_full, _ in self._watchers:
                    on_full()
        return load

    def done(self, load: Load) -> None:
        """Count the request as answered."""
        for one in load.used:
            one.requests -= 1
            one.byte_count -= load.byte_count
            one.items -= load.items
            one.reads -= load.reads
        self.reads -= load.reads
        if self._waiting:
            self._look_soon()
        if load.reads:
            return
        self.count -= 1
        self.byte_count -= load.byte_count
        half = (
            self.count <= EVERYBODY.requests // 2 and self.byte_count <= EVERYBODY.byte_count // 2
        )
        if self.is_full and half:
            self.is_full = False
            for _, on_room in self._watchers:
                on_room()

    # --- those who wait ---------------------------------------------------------------------------

    @property
    def lines(self) -> int:
        """How many lines of requests wait: one for each account, and one for its reads."""
        return len(self._waiting)

    def _look_soon(self) -> None:
        """Let some in with the next turn of the loop."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_soon(self._let_in)

    def _let_in(self) -> None:
        """Call one of each account that may come in. They take what they want before the next look."""
        self._looking, moved = None, False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        for key in tuple(self._waiting):
            line = self._waiting[key]
            by, call = line[0]
            if self.stops(by, reads=key[1]):
                continue
            line.popleft()
            del self._waiting[key]
            if line:
                self._waiting[key] = line  # behind all others
            moved = True
            call()
        if moved and self._waiting:
            self._look_soon()
        elif self._waiting:  # the cost of refusals is forgiven by time alone
            self._later = asyncio.get_running_loop().call_later(LOOK, self._look_soon)

    def _of(self, who: Jid) -> Used:
        if who not in self._used:
            if len(self._used) >= REMEMBERED:
                self._forget_idle()
            self._used[who] = Used(since=self._clock())
        return self._used[who]

    def _forget_idle(self) -> None:
        """Drop accounts without requests in progress, and servers without costs."""
        self._used = {
            who: used
            for who, used in self._used.items()
            if used.requests or (used.refused and who.startswith("@"))
        }


def _named(who: Jid, why: str) -> str:
    return f"of the server {who[1:]} {why}" if who.startswith("@") else f"of this account {why}"


def _pass_on(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
