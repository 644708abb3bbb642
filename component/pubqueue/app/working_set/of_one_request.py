"""What one request alone sees: next numbers, and the winners of its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.store.ports import Transaction
    from pubqueue.app.store.rows import Conflict, Writes
    from pubqueue.app.store.version_listings import Conflicts, NodeWinners

COMPARED: Final = 500
"""Payloads that are compared by meaning in one step."""


class OfOneRequest(Struct):
    """Rows that only one request may see."""

    numbers: dict[str, int] = {}
    numbers_wanted: set[str] = set()
    winners: list[NodeWinners] | None = None
    compared: set[Conflicts] = set()
    to_compare: dict[Conflicts, Callable[[list[Conflict]], Writes]] = {}
    fault: Exception | None = None

    def load(self, tx: Transaction) -> None:
        """Load the numbers and make the comparisons that the request needs."""
        for sequence in self.numbers_wanted:
            self.numbers[sequence] = tx.number(sequence, 0)
        self.numbers_wanted.clear()
        for which, judge in self.to_compare.items():
            while self.fault is None and (conflicts := tx.page(which, None, COMPARED)):
                self._judge(tx, conflicts, judge)
            self.compared.add(which)
        self.to_compare.clear()

    def _judge(
        self, tx: Transaction, conflicts: list[Conflict], judge: Callable[[list[Conflict]], Writes]
    ) -> None:
        try:
            writes = judge(conflicts)
        except Exception as problem:  # raised in the request that asks for it
            self.fault = problem
        else:
            tx.write(writes)
