"""A PostgreSQL of the run's own, and stores in it that work on the calling thread: a batch is over when it is asked for."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from harness.databases.postgres import Postgres

from proof.simulate.ticks import true_time
from proof.simulate.troubles import DeadError, on_a_full_disk
from pubqueue.stores.postgres import store as real
from pubqueue.stores.postgres.connection import DatabaseConnection, ServerClock
from pubqueue.stores.postgres.schema import translated
from pubqueue.stores.sqlite.in_memory import Instances, Owners

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.ports import Transaction
    from pubqueue.model.entities import Millis

T = TypeVar("T")


class PostgresPlace:
    """A server that nobody else has."""

    has_clock = True

    def __init__(self) -> None:
        self._server = Postgres()
        self._server.__enter__()
        self._served_by: Owners = {}
        self._stores: list[InlinePostgres] = []
        self._looking = self.store()

    def store(self) -> InlinePostgres:
        store = InlinePostgres(self._server.address, self._served_by)
        self._stores.append(store)
        return store

    def look(self, job: Callable[[Transaction], T]) -> T:
        return self._looking.look(job)

    def elsewhere(self) -> None:
        """Say that there is none: `tests/stores/copying/test_copy.py` has copies between servers."""

    def close(self) -> None:
        for store in self._stores:
            store.end()
        self._server.__exit__(None, None, None)


class MortalConnection(DatabaseConnection):
    """A connection that ends with its process: nobody rolls back what was begun, but the server itself."""

    def undo(self) -> None:
        if isinstance(sys.exc_info()[1], DeadError):
            self.drop()
        else:
            super().undo()


class InlinePostgres:
    """The store in PostgreSQL, without threads, which would bring chance in.

    Who serves from it is known as in `memory:`: how soon the server misses a connection is up to the machine. And the time that it
    tells is that of the run, for its own does not leap.
    """

    def __init__(self, address: str, served_by: Owners) -> None:
        self.instances = Instances(served_by)
        self._store = real.PostgresStore(address)
        self._line, self._reader = (MortalConnection(self._store.conninfo) for _ in range(2))
        self._seen = 0
        self._full = False
        self._clock = ServerClock()

    def clock(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        return self._clock.beside(machine)

    def look(self, job: Callable[[Transaction], T]) -> T:
        """Read what is committed, now."""
        with translated():
            return real.look(self._reader, job)

    def end(self) -> None:
        """Let go of the connections."""
        for line in (self._line, self._reader):
            line.drop()

    async def open(self) -> None:
        self._clock.note_time(true_time())
        self._seen = self._of_others()

    async def close(self) -> None:
        self.end()

    def fill(self, *, full: bool) -> None:
        """Let there be no room for what a batch has written, or let there be room again."""
        self._full = full

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        await asyncio.sleep(0)
        self.instances.see_that_it_serves()
        self._clock.note_time(true_time())
        with translated():
            return self._store.transact(
                self._line, partial(on_a_full_disk, job) if self._full else job
            )

    async def read(self, job: Callable[[Transaction], T]) -> T:
        await asyncio.sleep(0)
        return self.look(job)

    async def changes(self) -> bool:
        await asyncio.sleep(0)
        self._clock.note_time(true_time())
        seen, self._seen = self._seen, self._of_others()
        return seen != self._seen

    def _of_others(self) -> int:
        with translated():
            return self._store.of_others(self._line.connection())
