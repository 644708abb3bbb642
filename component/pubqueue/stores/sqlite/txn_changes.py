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


def _use(connection: Connection, owner: str, items: int, size: int) -> None:
    for account in (owner, ""):
        _run(connection, "use", account, items, size)


def _stage(connection: Connection, change: t.Stage) -> None:
    mark = change.mark
    app = _app(connection, mark.app, change.owner, change.at)
    row = _one(connection, "standing", mark.app, mark.version)
    txn = row[4]
    if txn is None:
        times = change.at, change.until
        (txn,) = _one(connection, "add_open", app, mark.version, mark.immediate, *times)
    items = sum(row.size is None for row in change.rows)
    size = sum(len(row.draft.payload) - (row.size or 0) for row in change.rows)
    attempt, after = _one(connection, "add_attempt", txn, mark.part, mark.attempt, items, size)
    _must(connection, "add_to_open", 1, items, size, change.until, txn, mark.immediate)
    _use(connection, change.owner, items, size)
    _stage_rows(connection, change, txn, (attempt, after - items))


def _stage_rows(connection: Connection, change: t.Stage, txn: int, place: tuple[int, int]) -> None:
    attempt, at = place
    for row in change.rows:
        draft = row.draft
        times = row.state, draft.priority, row.pause, row.life
        words = packed(draft.headers), draft.payload
        if row.size is None:
            key = attempt, at, txn, change.node, draft.id
            _run(connection, "add_staged", *key, *times, row.known, *words)
            at += 1
        else:
            _must(connection, "restage", 1, *times, *words, txn, change.node, draft.id, attempt)


def _commit(connection: Connection, counts: Counts, change: t.Commit) -> None:
    app = _app(connection, change.app, change.owner, change.at)
    for outcome in change.outcomes:
        _make_room(connection, change, outcome)
        counts.item(outcome.node, outcome.added)
    added = sum(outcome.added for outcome in change.outcomes)
    anew = sum(outcome.replaced for outcome in change.outcomes if not outcome.queueing)
    if change.outcomes:
        _must(connection, "appear", added + anew, change.owner, change.at)
    used = _one(connection, "waiting_until", app, change.version)
    _run(connection, "free", *used, change.owner)
    _run(connection, "drop_until", app, change.version)
    _run(connection, "close_before", app, change.version)
    told = change.told.skipped, change.told.dead_lettered, change.told.seconds
    totals = change.at, change.items, change.bytes
    _must(connection, "close", 1, app, change.version, *totals, *told)
    moment = change.version, change.at, change.at
    _must(connection, "advance", 1, *moment, app, change.version)


def _make_room(connection: Connection, change: t.Commit, outcome: t.Outcome) -> None:
    """Let winners whose id is there give their payload to it, or take its place."""
    if not outcome.replaced:
        return
    if outcome.queueing:
        _must(connection, "replace", outcome.replaced, outcome.node, change.owner)
    else:
        _must(connection, "overwrite", outcome.replaced, outcome.node)
        _must(connection, "come_anew", outcome.replaced, outcome.node)


def _abort(connection: Connection, change: t.Abort) -> None:
    """Drop an open version; one that is not there needs nothing."""
    row = _one(connection, "waiting", change.app, change.version)
    if row is not None:
        txn, owner, items, size = row
        _must(connection, "free", 2, items, size, owner)
        _run(connection, "drop_attempts", txn)
        _must(connection, "drop_open", 1, txn)


def _sweep(connection: Connection, change: t.Sweep) -> None:
    _run(connection, "sweep_staged", change.limit)
    _run(connection, "sweep_attempts")
    _run(connection, "sweep_usage")
    _run(connection, "sweep_records", change.before, change.limit)
    _run(connection, "sweep_apps", change.before)


MAKE: Final[dict[type, Callable[[Connection, Any], None]]] = {
    t.Stage: _stage,
    t.Abort: _abort,
    t.Sweep: _sweep,
}

MAKE_AND_COUNT: Final[dict[type, Callable[[Connection, Counts, Any], None]]] = {t.Commit: _commit}
