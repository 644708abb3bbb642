"""The shell without its threads: one call is one batch, at a time that the test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from harness.facts import NOW

from pubqueue.app.batch import run
from pubqueue.app.events import EventLog
from pubqueue.app.facts import Context
from pubqueue.core.access import CreationPolicy
from pubqueue.core.model import Millis
from pubqueue.core.transactions import DEFAULTS
from pubqueue.stores.sqlite.store import SqliteStore, _transact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pubqueue.app.batch import Outcome
    from pubqueue.app.ports import Transaction
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import NodeName

T = TypeVar("T")


class Shell:
    """Rules and a SQLite store, called as the broker calls them. Power is not lost here: no syncs."""

    def __init__(self, path: Path) -> None:
        store = SqliteStore(path)
        self.connection = store._connect()
        store._prepare(self.connection)
        self.connection.execute("PRAGMA synchronous = OFF")
        self.now = NOW
        self.limits = DEFAULTS
        self.log = EventLog()
        self.same: Callable[[bytes, bytes], bool] = bytes.__eq__

    def close(self) -> None:
        self.connection.close()

    def batch(
        self, *requests: Request, everywhere: bool = False, rest: Sequence[NodeName] = ()
    ) -> Outcome:
        """Do the requests in one batch, and hand out."""
        how: Any = {"dispatching": True, "everywhere": everywhere, "rest": rest}
        return self.look(lambda tx: run(self._context(tx), requests, **how))

    def do(self, request: Request) -> Reply:
        """Do one request and return its reply."""
        return self.batch(request).decisions[0].reply

    def look(self, job: Callable[[Transaction], T]) -> T:
        """Run a job in a transaction."""
        return _transact(self.connection, job)

    def wait(self, seconds: float) -> None:
        """Let time pass. Nobody notices by itself: that is the reaper's part."""
        self.now = Millis(self.now + round(seconds * 1000))

    def dump(self) -> list[object]:
        """Return every row of every table."""
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in self.connection.execute(tables)]
        return [row for name in names for row in self.connection.execute(f"SELECT * FROM {name}")]

    def _context(self, tx: Transaction) -> Context:
        return Context(tx, self.now, CreationPolicy.ANYONE, self.same, self.limits, self.log)
