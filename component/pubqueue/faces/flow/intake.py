"""Limits the accepted requests without an answer, for each account and in total, so that one account cannot take all the capacity.

An account with too much under way is asked to wait. When the total is too large, reading from the server pauses: the rest waits in its
sockets, which slows its senders down. So publishers that are faster than the disk use a limited amount of memory here, for as long as
they continue.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.engine.table import READS, size_of
from pubqueue.model.limits import EVERYBODY, Used, payers
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.staging import StagePublish

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.table import Request
    from pubqueue.model.entities import Jid, NodeName, Principal

REMEMBERED: Final = 10_000
"""Maximum number of accounts with a recorded cost. Beyond it the costs of idle accounts are dropped; those of their servers stay."""


class Load(Struct, frozen=True):
    """The weight of one request, and the budgets in which it counts."""

    byte_count: int
    items: int
    reads: int
    used: tuple[Used, ...]


def notified_node(request: object) -> NodeName | None:
    """Return the node whose subscribers may be notified as soon as the request is done."""
    if isinstance(request, StagePublish):
        return request.publish.node if request.mark.immediate else None
    return request.node if isinstance(request, Publish | Settle) else None


class Intake:
    """Counts unanswered requests. `on_full` is called when the total reaches its bound, `on_room` when half of it is done."""

    def __init__(
        self,
        on_full: Callable[[], None],
        on_room: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_full, self._on_room, self._clock = on_full, on_room, clock
        self._used: dict[Jid, Used] = {}
        self._payers = lru_cache(maxsize=4096)(payers)
        self.count = 0
        self.byte_count = 0
        self.reads = 0
        self.is_full = False

    def beyond(self, by: Principal) -> str:
        """Return why the requester has to wait, or "" if the request may be read. The head of a stanza is enough."""
        for who, budget in self._payers(by):
            if who in self._used:
                used = self._used[who]
                if why := used.beyond(budget, self._clock() if used.refused else used.since):
                    return _named(who, why)
        return ""

    def beyond_reading(self, by: Principal) -> str:
        """Return why the requester has to wait with read requests, or ""."""
        for who, budget in self._payers(by):
            used = self._used.get(who)
            if used is not None and used.reads >= budget.reads:
                return _named(who, f"{budget.reads} read requests are in progress")
        return "too many read requests are in progress" if self._is_full_of_reads else ""

    @property
    def _is_full_of_reads(self) -> bool:
        return self.reads >= EVERYBODY.reads

    def charge(self, by: Principal, seconds: float) -> None:
        """Count the cost of a refused request against the principal."""
        now = self._clock()
        for who, budget in self._payers(by):
            self._of(who).charge(seconds, budget, now)

    def take(self, by: Principal, byte_count: int, request: Request | None = None) -> Load:
        """Count an accepted request; None counts as a request about a single item."""
        known = self._used
        used = tuple([known[who] if who in known else self._of(who) for who, _ in self._payers(by)])
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
                self._on_full()
        return load

    def done(self, load: Load) -> None:
        """Count the request as answered."""
        for one in load.used:
            one.requests -= 1
            one.byte_count -= load.byte_count
            one.items -= load.items
            one.reads -= load.reads
        self.reads -= load.reads
        if load.reads:
            return
        self.count -= 1
        self.byte_count -= load.byte_count
        half = (
            self.count <= EVERYBODY.requests // 2 and self.byte_count <= EVERYBODY.byte_count // 2
        )
        if self.is_full and half:
            self.is_full = False
            self._on_room()

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
