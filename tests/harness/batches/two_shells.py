"""Two shells on one store, each with an instance's own caches between batches; and a third that only reads."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from harness.batches.shell import Shell

from pubqueue.stores.postgres.connection import DatabaseConnection
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.stores.store_reader import StoreReader

    from pubqueue.engine.batch import BatchResult
    from pubqueue.engine.ports import Transaction
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Jid, NodeName

T = TypeVar("T")


class PostgresShell(Shell):
    """Rules and a PostgreSQL store, on the caller's thread; `place` is the store's address."""

    # except the processes' own rows: each batch that writes anything, and each sign of life, changes them
    TABLES: ClassVar = (
        "SELECT tablename FROM pg_tables"
        " WHERE schemaname = 'pubqueue' AND tablename NOT IN ('writer', 'writing') ORDER BY 1"
    )

    def open_at(self, place: Any) -> None:
        self._postgres = PostgresStore(place)
        self._line = DatabaseConnection(self._postgres.conninfo)
        self.connection = self._line.connection()

    def transact(self, job: Callable[[Transaction], T]) -> T:
        return self._postgres.transact(self._line, job)


class MemoryShell(Shell):
    """Rules and a store in memory; `place` is the memory."""

    def open_at(self, place: Any) -> None:
        self._memory = MemoryStore(place)
        self.connection = place.connection

    def transact(self, job: Callable[[Transaction], T]) -> T:
        return self._memory.transact(job)

    def close(self) -> None:
        """Leave it to the garbage collector."""


class TwoShells:
    """As one shell: each batch runs on one of two, and requests beside batches on neither.

    `turns` decides which one is next, over and over.
    """

    def __init__(self, make: Callable[[], Shell], turns: Sequence[int] = (0, 1)) -> None:
        self._both = make(), make()
        self._beside = make()
        self.take_turns(turns)

    def take_turns(self, turns: Sequence[int]) -> None:
        self._turns: Iterator[int] = itertools.cycle(turns)

    def close(self) -> None:
        for shell in (*self._both, self._beside):
            shell.close()

    def batch(self, *requests: Request, **how: Any) -> BatchResult:
        return self._both[next(self._turns)].batch(*requests, **how)

    do = Shell.do

    def look(self, job: Callable[[StoreReader], T]) -> T:
        return self._beside.look(job)

    def look_within(self, job: Callable[[Transaction], T]) -> T:
        return self._beside.look_within(job)

    def holds_back(self, node: NodeName, jid: Jid) -> bool:
        return any(shell.holds_back(node, jid) for shell in self._both)

    def wait(self, seconds: float) -> None:
        for shell in self._both:
            shell.wait(seconds)

    def __getattr__(self, name: str) -> Any:  # common to both
        return getattr(self._beside if name in BESIDE else self._both[0], name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            for shell in self._both:
                setattr(shell, name, value)


BESIDE = {"connection", "dump", "event_numbers", "next_token"}


def on_memory() -> TwoShells:
    memory = Memory()
    return TwoShells(lambda: MemoryShell(memory))  # type: ignore[arg-type]  # a place of its own kind
