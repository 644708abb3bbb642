"""The shell without its threads: one call is one batch, at a time that the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from harness.batches.facts import NOW
from harness.stores.store_reader import StoreReader

from pubqueue.engine.batch import run
from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.context import Context, Payloads, Terms
from pubqueue.engine.working_set import WorkingSet
from pubqueue.model.entities import Millis
from pubqueue.model.records import MESSAGE_LIMITS as MESSAGES
from pubqueue.model.records import QUOTAS
from pubqueue.model.transactions import DEFAULTS
from pubqueue.rules.access import AutoCreation, CreationPolicy
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.schema import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pubqueue.engine.batch import BatchResult
    from pubqueue.engine.ports import Transaction
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Jid, NodeName

T = TypeVar("T")

SUBSCRIPTION: Final = (
    "id, node_id, jid, subid, queue_requests, in_flight, last_served, available"  # not `unanswered`
)


class Shell:
    """Rules and a SQLite store, called as the broker calls them. Power is not lost here: no syncs.

    `unreachable` are the JIDs that no face can send to, `takers` the numbers of the takes that wait.
    """

    TABLES: ClassVar = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"

    def __init__(self, path: Path) -> None:
        self.open_at(path)
        self.now = NOW
        self.limits, self.quotas, self.messages = DEFAULTS, QUOTAS, MESSAGES
        self.same: Callable[[bytes, bytes], bool] = bytes.__eq__
        self.policy, self.creation = CreationPolicy.ANYONE, AutoCreation.NEVER
        self.operators: frozenset[Jid] = frozenset()
        self.space_of: Callable[[bytes], str] = lambda _payload: ""
        self.unreachable: set[Jid] = set()
        self.damaged: list[int] = []
        """The numbers of items that were found damaged."""
        self.rows = WorkingSet(lambda seq, _name: self.damaged.append(seq))
        self.takers: set[int] = set()
        self.changes = ChangeApplier(
            self.rows, lambda jid: jid not in self.unreachable, self.takers
        )

    def open_at(self, path: Path) -> None:
        self._store = SqliteStore(path)
        self.connection: Any = self._store.connect()
        try:
            prepare(self.connection, path)
            self.connection.execute("PRAGMA synchronous = OFF")
        except BaseException:  # a damaged file
            self.close()
            raise

    def transact(self, job: Callable[[Transaction], T]) -> T:
        return self._store.transact(self.connection, job)

    def close(self) -> None:
        self.connection.close()

    def batch(
        self, *requests: Request, everywhere: bool = False, rest: Sequence[NodeName] = ()
    ) -> BatchResult:
        """Run the requests in one batch, and deliver."""
        how: Any = {"dispatching": True, "everywhere": everywhere, "rest": rest}

        def job(tx: Transaction) -> BatchResult:
            self.rows.begin(tx)
            self.changes.begin(self.now, foreign=tx.foreign)
            return run(self.context(), self.changes, tx, requests, **how)

        try:
            done = self.transact(job)
        except BaseException:
            self.changes.forget()
            raise
        self.rows.cache.shrink()
        return done

    def do(self, request: Request) -> Reply:
        """Run one request, all slices of it, and return its reply."""
        decision = self.batch(request).decisions[0]
        while decision.then is not None:
            decision = self.batch(cast("Request", decision.then)).decisions[0]
        return decision.reply

    def look(self, job: Callable[[StoreReader], T]) -> T:
        """Run a job that only reads in a transaction of its own."""
        return self.look_within(lambda tx: job(StoreReader(tx)))

    def look_within(self, job: Callable[[Transaction], T]) -> T:
        """Run a job that only reads on the seam itself."""
        return self.transact(job)

    def holds_back(self, node: NodeName, jid: Jid) -> bool:
        """Return whether the subscriber gets nothing for a while, because a delivery to it has bounced."""
        return self.changes.held_back.holds(node, jid)

    def wait(self, seconds: float) -> None:
        """Let time pass. Nothing reacts to it by itself: that is the reaper's task."""
        self.now = Millis(self.now + round(seconds * 1000))

    def dump(self) -> list[object]:
        """Return every row of every table, except those that record signs of life of a worker, even of one that was refused."""
        names = [name for (name,) in self.connection.execute(self.TABLES)]
        of = {"subscription": SUBSCRIPTION}
        asked = [f"SELECT {of.get(name, '*')} FROM {name}" for name in names]
        # a row that was written is elsewhere in a table of PostgreSQL
        return [
            row
            for statement in asked
            for row in sorted(self.connection.execute(statement), key=repr)
        ]

    def event_numbers(self) -> list[int]:
        """Return the numbers of all events, including those of deleted nodes."""
        return [seq for (seq,) in self.connection.execute("SELECT seq FROM event ORDER BY seq")]

    def next_token(self) -> int:
        """Return the token of the next lock."""
        found = self.connection.execute("SELECT next FROM sequence WHERE name = 'token'")
        return int(found.fetchone()[0])

    def context(self) -> Context:
        return Context(
            *(self.rows, self.now),
            Terms(
                *(self.policy, self.limits),
                auto_creation=self.creation,
                operators=self.operators,
                quotas=self.quotas,
                messages=self.messages,
            ),
            Payloads(self.same, space_of=self.space_of),
        )
