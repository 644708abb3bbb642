"""Makes the changes of transactions in SQLite, each guarded by what its rule believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.app.ports import StaleError
from pubqueue.core import transactions as t
from pubqueue.stores.sqlite.headers import packed
from pubqueue.stores.sqlite.queries import TXN

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from pubqueue.stores.sqlite.counts import Counts

    Connection = sqlite3.Connection


def _run(connection: Connection, query: str, *values: object) -> int:
    """Run a statement and return how many rows it changed."""
    return connection.execute(TXN[query], values).rowcount


def _one(connection: Connection, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
    return connection.execute(TXN[query], values).fetchone()


def _must(connection: Connection, query: str, count: int, *values: object) -> None:
    """Run a statement that has to change so many rows."""
    if _run(connection, query, *values) != count:
        raise StaleError(query)


def _app(connection: Connection, name: str, owner: str, now: int) -> int:
    """Return the app's row, made if it was not there."""
    row = _one(connection, "add_app", name, owner, now)
    if row is None:
        raise StaleError("add_app")
    return int(row[0])


def _stage(connection: Connection, counts: Counts, change: t.Stage) -> None:
    version, attempt = counts.ledger.open(change)
    at = attempt.items
    for row in change.rows:
        draft = row.draft
        times = row.state, draft.priority, row.pause, row.life
        words = *times, row.known, row.size, packed(draft.headers), draft.payload
        if row.over is None:
            key = attempt.id, at, version.id, change.node, draft.id
            _run(connection, "add_staged", *key, *words)
            at += 1
        else:
            place = version.id, change.node, draft.id, attempt.id
            _must(connection, "restage", 1, *words, *place)
    size = sum(row.size - (row.over or 0) for row in change.rows)
    counts.ledger.add(change, at - attempt.items, size)


def _commit(connection: Connection, counts: Counts, change: t.Commit) -> None:
    counts.ledger.close()
    app = _app(connection, change.app, change.owner, change.at)
    for outcome in change.outcomes:
        _make_room(connection, change, outcome)
        counts.item(outcome.node, outcome.added)
    added = sum(outcome.added for outcome in change.outcomes)
    anew = sum(outcome.replaced for outcome in change.outcomes if not outcome.queueing)
    if change.outcomes:
        mark = change.app, change.version
        _must(connection, "appear", added + anew, change.owner, change.at, *mark)
    items, size, began = _one(connection, "waiting_until", app, change.version)
    _run(connection, "free", items, size, change.owner)
    _run(connection, "drop_until", app, change.version)
    _run(connection, "close_until", app, change.version)
    times = change.at if began is None else began, change.at
    told = change.told.skipped, change.told.dead_lettered, change.told.seconds
    record = change.owner, change.version, *times, change.items, change.bytes, *told
    _must(connection, "close", 1, app, *record)
    moment = change.version, change.at, change.at
    _must(connection, "advance", 1, *moment, app, change.version)


def _make_room(connection: Connection, change: t.Commit, outcome: t.Outcome) -> None:
    """Let winners whose id is there give their payload to it, or take its place."""
    if not outcome.replaced:
        return
    if outcome.queueing:
        whose = change.owner, change.app, change.version
        _must(connection, "replace", outcome.replaced, outcome.node, *whose)
    else:
        _must(connection, "overwrite", outcome.replaced, outcome.node)
        _must(connection, "come_anew", outcome.replaced, outcome.node)


def _abort(connection: Connection, counts: Counts, change: t.Abort) -> None:
    """Drop an open version; one that is not there needs nothing."""
    counts.ledger.close()
    row = _one(connection, "waiting", change.app, change.version)
    if row is not None:
        txn, owner, items, size, until, app = row
        _must(connection, "free", 2, items, size, owner)
        _run(connection, "drop_attempts", txn)
        _must(connection, "used", 1, until, app)
        _must(connection, "drop_open", 1, txn)


def _sweep(connection: Connection, counts: Counts, change: t.Sweep) -> None:
    counts.ledger.close()
    _run(connection, "sweep_staged", change.limit)
    _run(connection, "sweep_attempts")
    _run(connection, "sweep_usage")
    _run(connection, "sweep_records", change.before, change.limit)
    _run(connection, "sweep_apps", change.before)


MAKE_AND_COUNT: Final[dict[type, Callable[[Connection, Counts, Any], None]]] = {
    t.Stage: _stage,
    t.Commit: _commit,
    t.Abort: _abort,
    t.Sweep: _sweep,
}
