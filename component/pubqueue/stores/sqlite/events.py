"""The event log, and pages for those who look from outside, in SQLite."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pubqueue.core.history import REPLACED, Event, Kind, Winners
from pubqueue.core.model import Millis, State
from pubqueue.core.pages import Grave, Logged, Shown, Tally
from pubqueue.stores.sqlite.queries import EVENTS
from pubqueue.stores.sqlite.rows import item_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from pubqueue.core.changes import ForgetEvents
    from pubqueue.core.history import Entry
    from pubqueue.core.model import Node, NodeName


def forget(connection: sqlite3.Connection, change: ForgetEvents) -> None:
    """Make the log shorter."""
    connection.execute(EVENTS["forget"], (change.through,))


def _values(event: Event, at: Millis) -> tuple[object, ...]:
    return (
        *(at, event.kind, event.node, event.item, event.attempt, event.worker, event.publisher),
        *(event.age, event.held, event.origin, event.to, event.detail),
    )


def _logged(row: Sequence[Any]) -> Logged:
    seq, at, kind, *facts = row
    return Logged(seq, at, Event(Kind(kind), *facts))


def _shown(node: NodeName, row: Sequence[Any]) -> Shown:
    *facts, size, death, at, reason, holder, origin, app, version, payload = row
    grave = None if death is None else Grave(death, at, reason, holder, origin)
    txn = None if app is None else (app, version)
    return Shown(item_of(node, facts), size, payload, grave, txn)


class SqliteHistory:
    """Implements `pubqueue.app.history_ports.History` on an open SQLite transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _one(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        return self._connection.execute(EVENTS[query], values).fetchone()

    def record(self, entries: Sequence[Entry], at: Millis) -> None:
        """Append to the event log, each entry under the number behind the newest."""
        run: list[tuple[object, ...]] = []
        for entry in entries:
            if isinstance(entry, Event):
                run.append(_values(entry, at))
            else:
                self._add(run)
                run = []
                self._record_winners(entry, at)
        self._add(run)

    def _add(self, run: list[tuple[object, ...]]) -> None:
        if len(run) == 1:
            self._connection.execute(EVENTS["add"], run[0])
        elif run:
            self._connection.executemany(EVENTS["add"], run)

    def _record_winners(self, winners: Winners, at: Millis) -> None:
        where = winners.node, winners.queueing, REPLACED
        self._connection.execute(EVENTS["add_superseded"], (at, Kind.RETRACTED, *where))
        values = (at, Kind.PUBLISHED, *where, winners.publisher)
        self._connection.execute(EVENTS["add_winners"], values)

    def ends(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest event, 0 if there is none."""
        return self._one("oldest")[0], self._one("newest")[0]

    def aged(self, before: Millis, among: int) -> int | None:
        """Return the last of so many oldest events that is from before this moment."""
        found: int | None = self._one("aged", before, among)[0]
        return found

    def events(
        self, nodes: Sequence[NodeName] | None, after: int, until: int, limit: int
    ) -> list[Logged]:
        """Return the events of these nodes (None: all that are there) numbered behind `after` to `until`."""
        names = None if nodes is None else json.dumps(nodes)
        rows = self._connection.execute(EVENTS["events"], (after, until, names, limit))
        return [_logged(row) for row in rows]

    def newest(self, node: NodeName, *, dead: bool) -> int:
        """Return the highest number of an item of the node, or of a death; 0 if there is none."""
        return int(self._one("newest_death" if dead else "newest_item", node)[0])

    def items(
        self,
        node: NodeName,
        *,
        after: int,
        until: int,
        state: State | None,
        payloads: bool,
        limit: int,
        room: int,
    ) -> tuple[list[Shown], bool]:
        """Return items behind `after` to `until`, those in DEAD by their deaths, and whether there are more."""
        query = EVENTS["deaths" if state is State.DEAD else "items"]
        found: list[Shown] = []
        values = (node, after, until, state, payloads, limit + 1)
        for row in self._connection.execute(query, values):
            shown = _shown(node, row)
            room -= len(shown.payload or b"")
            if len(found) == limit or (room < 0 and found):
                return found, True
            found.append(shown)
        return found, False

    def tally(self, node: Node) -> Tally:
        """Count the node's items by state; that walks an index."""
        queued, first = self._one("tally_queued", node.name)
        locked, dead = (self._one(f"tally_{state}", node.name)[0] for state in ("locked", "dead"))
        free = self._one("window_free", node.name)[0]
        oldest = None if first is None else Millis(self._one("published", first)[0])
        delayed = node.items - queued - locked - dead
        return Tally(node, queued, locked, delayed, dead, free, oldest)
