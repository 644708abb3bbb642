"""What publishers had confirmed and workers had committed, as on the wire; and the promises that must hold.

The representative of a crowd records its observations here, in their order. A broken promise is an
AssertionError at once; at the end `compare` checks the store's own count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.stores.recount import Count


@dataclass(slots=True)
class Ledger:
    """Of items by their ids and workers by their JIDs."""

    confirmed: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    given: Counter[str] = field(default_factory=Counter)
    windows: dict[str, int] = field(default_factory=dict)
    fullest: int = 0
    redelivered: int = 0
    _held: dict[str, str] = field(default_factory=dict)
    _in_hand: Counter[str] = field(default_factory=Counter)
    _tokens: dict[str, int] = field(default_factory=dict)

    def joined(self, worker: str, window: int) -> None:
        """Record a worker: items delivered to it from now on are locked to it."""
        self.windows[worker] = window

    def left(self, worker: str) -> None:
        """Strike out a worker with its items: the queue releases them when it is notified."""
        self.windows.pop(worker, None)
        self._held = {item: holder for item, holder in self._held.items() if holder != worker}
        del self._in_hand[worker]

    def delivered(self, worker: str, item: str, token: int) -> None:
        """Record a lock: the only one on that item, the newest, and one that fits into the window."""
        assert item not in self.committed, f"{item} came back after its retract was confirmed"
        assert item not in self._held, f"{item} is locked to {worker} and to {self._held[item]}"
        last = self._tokens.get(item, 0)
        assert token > last, f"{item} was given as {last}, and now as {token}"
        self._tokens[item] = token
        self._held[item] = worker
        self._in_hand[worker] += 1
        held, window = self._in_hand[worker], self.windows[worker]
        assert held <= window, f"{worker} holds {held} items and has asked for {window}"
        self.fullest = max(self.fullest, held)
        self.given[worker] += 1
        self.redelivered += bool(last)

    def holds(self, worker: str, item: str, token: int) -> bool:
        """Return whether that very lock has not ended."""
        return self._held.get(item) == worker and self._tokens[item] == token

    def freed(self, worker: str, item: str) -> None:
        """Record that a lock has ended, if it is known."""
        if self._held.get(item) == worker:
            del self._held[item]
            self._in_hand[worker] -= 1

    def retracted(self, worker: str, item: str) -> None:
        """Record that a retract was confirmed."""
        assert item not in self.committed, f"{item} was retracted twice"
        self.committed.add(item)
        self.freed(worker, item)

    def compare(self, found: Count, node: str = "jobs") -> None:
        """Check that nothing is lost, nothing came back, and the store's own counts are right."""
        assert found.wrong == ()
        here = found.of(node).keys()
        lost = self.confirmed - self.committed - here
        assert not lost, f"lost: {sorted(lost)}"
        back = self.committed & here
        assert not back, f"came back: {sorted(back)}"
