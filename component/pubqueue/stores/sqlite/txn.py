"""What is staged, read from SQLite. Nothing is judged here but sameness to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubqueue.app.txn_ports import Class, Contest
from pubqueue.core.model import Draft, NodeName
from pubqueue.core.transactions import App, Noted, Open, Record, Told, Usage
from pubqueue.stores.sqlite.headers import unpacked
from pubqueue.stores.sqlite.queries import TXN

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from pubqueue.core.model import ItemId, Jid, Millis
    from pubqueue.core.transactions import Mark
    from pubqueue.stores.sqlite.ledger import Ledger


def _record(row: Sequence[Any]) -> Record:
    row_id, app, owner, version, began, committed, items, size, *told = row
    return Record(row_id, app, owner, version, began, committed, items, size, Told(*told))


class SqliteStaging:
    """Implements `pubqueue.app.txn_ports.Staging` on an open SQLite transaction."""

    def __init__(self, connection: sqlite3.Connection, ledger: Ledger) -> None:
        self._connection = connection
        self._ledger = ledger

    def _one(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        return self._connection.execute(TXN[query], values).fetchone()

    def _all(self, query: str, *values: object) -> list[Any]:
        return self._connection.execute(TXN[query], values).fetchall()

    def standing(self, app: str, version: int) -> tuple[App | None, Open | None]:
        """Return the app, and its version of this number if that is open."""
        known, there = self._ledger.standing(app, version)
        return known, None if there is None else Open(there.immediate, there.items, there.bytes)

    def usage(self, account: Jid) -> Usage:
        """Return what waits for commits, of the account and in all."""
        return self._ledger.usage(account)

    def size(self, mark: Mark, node: NodeName, item: ItemId) -> int | None:
        """Return the size of what this very attempt has staged under the id."""
        _, version = self._ledger.standing(mark.app, mark.version)
        attempt = version and self._ledger.attempt(version, mark.part, mark.attempt)
        if version is None or attempt is None:
            return None
        row = self._one("staged_size", version.id, node, item, attempt.id)
        return None if row is None else int(row[0])

    def noted(self, mark: Mark, node: NodeName, item: ItemId) -> Noted | None:
        """Return what any attempt of the open version has noted of the id."""
        row = self._one("noted", self._open(mark.app, mark.version), node, item)
        return None if row is None else Noted(bytes(row[0]), bool(row[1]))

    def attempts(self, app: str, version: int) -> dict[tuple[int, int], tuple[int, int]]:
        """Return how many items and bytes each (part, attempt) of an open version has staged."""
        return {row[:2]: row[2:4] for row in self._attempts(app, version)}

    def _attempts(self, app: str, version: int) -> list[Any]:
        self._ledger.write()
        return self._all("attempts", self._open(app, version))

    def _open(self, app: str, version: int) -> int | None:
        """Return the row of an open version."""
        _, there = self._ledger.standing(app, version)
        return None if there is None else there.id

    def record(self, app: str, version: int) -> Record | None:
        """Return the record of a committed version."""
        row = self._one("record", app, version)
        return None if row is None else _record(row)

    def records(
        self, *, waiting: bool, app: str | None, owner: Jid | None, after: int, limit: int
    ) -> list[Record]:
        """Return records behind an id, the oldest first."""
        self._ledger.write()
        query = "records"
        if waiting:
            query = "open_records"
        elif app is not None:
            query = "records_of_app"
        elif owner is not None:
            query = "records_of_owner"
        return [_record(row) for row in self._all(query, after, app, owner, limit)]

    def overdue(self, now: Millis, limit: int) -> list[tuple[str, int]]:
        """Return open versions whose time to wait has ended."""
        self._ledger.write()
        return self._all("overdue", now, limit)

    def litter(self, before: Millis) -> bool:
        """Say whether a sweep would find anything."""
        return bool(self._one("litter", before)[0])

    # --- the winners of one version ---

    def choose(
        self, app: str, version: int, parts: Iterable[tuple[int, int]]
    ) -> list[tuple[NodeName, int, int]]:
        """Begin a commit of these (part, attempt): return each node with its rows and ids."""
        self._choose(app, version, parts)
        txn = self._open(app, version)
        tally = [(NodeName(node), rows, ids) for node, rows, ids in self._all("tally", txn)]
        if any(rows > ids for _, rows, ids in tally):
            self._all("meet_each_other", txn)
        self._all("meet_items", txn)
        return tally

    def meet_finished(self, node: NodeName, now: Millis) -> None:
        """Let the winners of a node meet finished work that still absorbs a re-publish."""
        self._all("meet_finished", node, now)

    def _choose(self, app: str, version: int, parts: Iterable[tuple[int, int]]) -> None:
        self._all("forget_winners")
        self._all("forget_met")
        known = {row[:2]: row[4] for row in self._attempts(app, version)}
        self._connection.executemany(
            TXN["add_winner"], [(part[0], known[part]) for part in parts if part in known]
        )

    def choose_noted(
        self, app: str, version: int, parts: Iterable[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return how many items these attempts have noted, and how many of them were known."""
        self._choose(app, version, parts)
        items, known = self._one("noted_winners")
        return items, known

    def contested(self, node: NodeName, limit: int) -> list[Contest]:
        """Return winners of which it is open whether they mean the same as what is there."""
        return [
            Contest((attempt, row), bool(finished), there, offered)
            for attempt, row, finished, there, offered in self._all("contested", node, limit)
        ]

    def judge(self, verdicts: Sequence[tuple[Contest, bool]]) -> None:
        """Keep whether these mean the same; finished work that does not counts no longer."""
        execute = self._connection.execute
        for contest, same in verdicts:
            if same or not contest.finished:
                execute(TXN["judge"], (same, *contest.key))
            else:
                execute(TXN["unmeet"], contest.key)

    def classes(self, node: NodeName) -> list[Class]:
        """Return what the winners of a node have met."""
        return [
            Class(state, bool(same), count, first)
            for state, same, count, first in self._all("found", node)
        ]

    def drafts(self, node: NodeName) -> list[Draft]:
        """Return the winners of a node, in their order."""
        rows = self._all("winning_drafts", node)
        return [Draft(*row[:-1], *([unpacked(row[-1])] if row[-1] else ())) for row in rows]
