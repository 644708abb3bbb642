"""A shell on SQLite and one on PostgreSQL as one: each batch runs on both, and the results have to be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from harness.batches.shell import Shell
from harness.stores.store_contents import everything

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.stores.store_reader import StoreReader

    from pubqueue.engine.batch import BatchResult
    from pubqueue.engine.ports import Transaction
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import NodeName

T = TypeVar("T")


class BothShells:
    """Requests beside batches, which the first shell answers."""

    def __init__(self, first: Shell, second: Shell) -> None:
        self._first, self._second = first, second

    def close(self) -> None:
        for shell in (self._first, self._second):
            shell.close()

    def batch(self, *requests: Request, **how: Any) -> BatchResult:
        """Run the batch on both."""
        results = [shell.batch(*requests, **how) for shell in (self._first, self._second)]
        seen = [(it.decisions, it.deliveries, it.rest, it.looked) for it in results]
        assert seen[0] == seen[1]
        if all(it.exact for it in results):  # one may ask the whole store for what the other knows
            assert results[0].soonest == results[1].soonest
        rows = [shell.look_within(everything) for shell in (self._first, self._second)]
        assert rows[0] == rows[1]
        return results[0]

    do = Shell.do

    def look(self, job: Callable[[StoreReader], T]) -> T:
        return self._first.look(job)

    def look_within(self, job: Callable[[Transaction], T]) -> T:
        return self._first.look_within(job)

    def holds_back(self, node: NodeName, jid: Any) -> bool:
        return self._first.holds_back(node, jid)

    def wait(self, seconds: float) -> None:
        for shell in (self._first, self._second):
            shell.wait(seconds)

    def __getattr__(self, name: str) -> Any:  # common to both
        return getattr(self._first, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            for shell in (self._first, self._second):
                setattr(shell, name, value)
