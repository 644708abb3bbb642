"""Transactions of clients: staged rows, and commits larger than a batch."""

from __future__ import annotations

import json
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import StaleError
from pubqueue.model.sums import key_half
from pubqueue.model.transactions import MONTH, OnTaken
from pubqueue.stores.sql.columns import covered_sum, is_whole, packed
from pubqueue.stores.sql.session import packed_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.engine.rows import StagedKey, StagedRow, Write
    from pubqueue.model import transactions
    from pubqueue.stores.sql.session import SqlSession, Values


# Makes the changes of a transaction that touch more rows than a batch can hold: commit, abort, sweep.

PEOPLE: Final = 4
"""Staged items that are swept as quickly as one subscription, which is in six indexes."""


def commit(session: SqlSession, change: transactions.Commit) -> None:
    """Move the winners to their places, and drop everything else of the version."""
    known = covered_sum("txn_app", (change.app, change.owner, None, None))
    found = session.row("find_app", change.app, change.owner, change.at, known)
    if found is None:
        raise StaleError("app", (change.app, change.owner))
    (app,) = found
    more = _bytes_more(session) if change.nodes else {}
    for committed in change.nodes:
        _make_room(session, change, committed)
    if change.nodes:
        _appear(session, change, more)
    kept = _keep(session, change, app) if change.moving else None
    _close(session, change, app)
    if kept is not None:
        session.run("attach_winners", app, change.version, kept)


def _keep(session: SqlSession, change: transactions.Commit, app: int) -> int:
    """Keep the winners when everything else of the version is dropped; return the record that they belong to."""
    rows = session.rows("keep_winners", app, change.version, packed_keys(change.moving))
    if not rows:
        raise StaleError("winners", (app, change.version))
    return int(rows[0][0])


def moved(session: SqlSession, change: transactions.Moved) -> None:
    """Drop rows that are in their places, and attempts with no rows left."""
    for part, _, row in change.ends:
        session.run("drop_moved", change.app, change.version, part, row)
    if change.skipped or change.dead_lettered:
        counts = change.skipped, change.dead_lettered
        session.must("count_aside", 1, change.app, change.version, *counts)
    session.run("end_moved", change.app, change.version)


def _bytes_more(session: SqlSession) -> dict[str, tuple[int, int]]:
    """Return how many bytes are about to be added to each node, as a queue and as a plain node.

    This is read before winners replace other items.
    """
    rows = session.rows("winning_bytes")
    return {node: (of_queue, of_plain) for node, of_queue, of_plain, _ in rows}


def _make_room(
    session: SqlSession, change: transactions.Commit, committed: transactions.CommittedNode
) -> None:
    """Let winners whose id exists replace the payload of that item, or the item itself."""
    if not committed.replaced:
        return
    if committed.queueing:
        whose = change.owner, change.app, change.version
        session.must("replace_payload", committed.replaced, committed.node, *whose)
    else:
        session.must("overwrite", committed.replaced, committed.node)
        session.must("drop_overwritten_conflicts", committed.replaced, committed.node)


def _appear(
    session: SqlSession, change: transactions.Commit, more: Mapping[str, tuple[int, int]]
) -> None:
    """Insert the winners that are new, or new again, under their own numbers."""
    added = sum(committed.added for committed in change.nodes)
    anew = sum(committed.replaced for committed in change.nodes if not committed.queueing)
    first = session.number("item", added + anew)
    mark = change.app, change.version
    session.must("add_items_of_winners", added + anew, change.owner, change.at, *mark, first)
    if session.most_in_row < inf:
        session.run("add_large_of_winners")
    counts = [(one.added, _of(more, one), 0, 0, 0, session.id(one.node)) for one in change.nodes]
    session.each("count_node", counts)


def _of(more: Mapping[str, tuple[int, int]], committed: transactions.CommittedNode) -> int:
    of_queue, of_plain = more.get(committed.node, (0, 0))
    return of_queue if committed.queueing else of_plain


def _close(session: SqlSession, change: transactions.Commit, app: int) -> None:
    """Drop what waited for the app's versions up to this one, and keep a record of it."""
    items, size, began = session.row("waiting_until", app, change.version)
    session.run("lower_account_totals", items, size, change.owner)
    session.run("drop_until", app, change.version)
    session.run("close_versions", app, change.version)
    times = change.at if began is None else began, change.at
    counts = change.totals.skipped, change.totals.dead_lettered, change.totals.seconds
    record = change.owner, change.version, *times, change.items, change.bytes, *counts
    choice = change.on_taken.value, change.dead_letter_node
    ends = change.at, change.at
    columns = app, change.version, change.owner, False, times[0], *ends, *choice
    session.must("add_record", 1, app, *record, *choice, covered_sum("txn", columns))
    mark = change.version, change.at
    known = covered_sum("txn_app", (change.app, change.owner, *mark))
    session.must("change_last_version", 1, *mark, change.at, known, app, change.version)


def abort(session: SqlSession, change: transactions.Abort) -> None:
    """Drop an open version, or some attempts at it; do nothing if it does not exist. A damaged row is never a committed one here."""
    row = session.row("waiting_version", change.app, change.version)
    if row is None:
        return
    transaction, items, size, *columns, known, owner = row
    app, _, its_owner, _, _, until, committed, *_ = columns
    whole = is_whole("txn", known, columns)
    if whole and committed is not None:
        return
    owner = its_owner if whole else owner
    if change.attempts is None:
        session.run("drop_attempts", transaction)
    else:
        named = transaction, json.dumps(sorted(set(change.attempts)))  # one may be named twice
        items, size = session.row("staged_by", *named)
        session.run("drop_named", *named)
        session.must("lower_version_totals", 1, items, size, transaction)
    session.must("lower_account_totals", 2, items, size, owner)
    session.must("note_use", 1, until, app)
    session.run("drop_open", transaction)


def sweep(session: SqlSession, change: transactions.Sweep) -> None:
    """Drop a slice of the rows that belong to no version or node any more, and records that are too old."""
    session.run("sweep_staged", change.limit, change.byte_count)
    session.run("sweep_attempts")
    if change.orphans:
        session.run("drop_orphans", packed_keys([orphan.seq for orphan in change.orphans]))
    session.run("sweep_done", change.limit, change.byte_count)
    if session.most_in_row < inf:
        _sweep_large(session, change)
    session.run("sweep_places", change.limit)
    session.run("sweep_contents", change.limit)
    people = max(1, change.limit // PEOPLE)
    session.run("sweep_subscriptions", people)
    session.run("sweep_affiliations", people)
    session.run("sweep_nodes", people)
    session.run("sweep_usage")
    session.run("sweep_records", change.before, change.limit)
    _sweep_apps(session, change)


def _sweep_large(session: SqlSession, change: transactions.Sweep) -> None:
    """Drop the large payloads of items that are gone, a slice of bytes."""
    left = change.byte_count
    for seq, byte_count in session.rows("payloads_gone", change.limit):
        if left <= 0:
            return
        session.run("drop_large", seq)
        session.run("forget_gone", seq)
        left -= byte_count


def _sweep_apps(session: SqlSession, change: transactions.Sweep) -> None:
    """Drop apps without recent use. The last version of a damaged one is not known: it is put off, and never dropped."""
    for app, *columns, known in session.rows("old_apps", change.before, change.limit):
        if is_whole("txn_app", known, columns):
            session.run("sweep_app", app)
        else:
            session.run("put_off_app", change.before + MONTH, app)


def restore(session: SqlSession, change: transactions.Restore) -> None:
    """Write the mark of an app again, and the row of a committed version."""
    new = change.app
    mark = new.name, new.owner, new.version, new.committed
    (app,) = damaged_apps(session, new.name) or (None,)
    if app is not None:
        known = covered_sum("txn_app", mark)
        session.must("restore_app", 1, *mark, new.used, known, app)
    if change.record is not None:
        (app,) = session.row("app_id", new.name)
        at = new.committed
        columns = app, change.record, new.owner, False, at, at, at, OnTaken.FAIL.value, None
        session.must("restore_record", 1, new.owner, at, covered_sum("txn", columns), *columns[:2])


def damaged_apps(session: SqlSession, name: str) -> list[int]:
    """Return the number of the app of this name if its row is damaged, even in the name."""
    rows = session.rows("find_apps", name, key_half(name))
    return [row[0] for row in rows if not is_whole("txn_app", row[-1], row[1:-1])][:1]


# Writes the rows that wait for commits: apps, open versions, attempts, accounts, and the staged items.


def write_versions(
    session: SqlSession, _kind: object, writes: Sequence[Write[transactions.Version]]
) -> None:
    """Write open versions."""
    for write in writes:
        before, now = write.before, write.after
        if before is None and now is not None:
            facts = now.owner, now.number, int(now.immediate), now.began, now.until
            app = _app_id(session, now.app)
            session.must("add_version", 1, *facts, now.items, now.bytes, _sum_of(app, now), app)
        elif before is not None:
            key = before.app, before.number
            if now is None:
                session.run("drop_attempts_at_version", *key)
                session.must("drop_version", 1, *key)
            else:
                more = now.items - before.items, now.bytes - before.bytes
                app = _app_id(session, now.app)
                session.must("change_version", 1, *more, now.until, _sum_of(app, now), app, key[1])


def _app_id(session: SqlSession, name: str) -> int:
    row = session.row("app_id", name)
    if row is None:
        raise StaleError("app", name)
    return int(row[0])


def _sum_of(app: int, one: transactions.Version) -> int:
    """Return the checksum of an open version."""
    facts = one.owner, int(one.immediate), one.began, one.until
    columns = app, one.number, *facts, None, OnTaken.FAIL.value, None
    return covered_sum("txn", columns, damaged=one.damaged)


def write_attempts(
    session: SqlSession, _kind: object, writes: Sequence[Write[transactions.Attempt]]
) -> None:
    """Write attempts."""
    for write in writes:
        before, now = write.before, write.after
        if before is None and now is not None:
            facts = now.part, now.number, now.items, now.bytes, now.known, now.grouped
            session.must("add_attempt", 1, *facts, now.app, now.version)
        elif before is not None:
            key = before.app, before.version, before.part, before.number
            if now is None:
                session.must("drop_attempt", 1, *key)
            else:
                more = now.items - before.items, now.bytes - before.bytes
                counts = now.known - before.known, now.grouped - before.grouped
                session.must("change_attempt", 1, *more, *counts, *key)


def write_waiting(
    session: SqlSession, _kind: object, writes: Sequence[Write[transactions.StagedTotals]]
) -> None:
    """Write how much waits, by account."""
    for write in writes:
        before, now = write.before, write.after
        if before is None and now is not None:
            session.must("add_staged_totals", 1, now.account, now.items, now.bytes)
        elif before is not None:
            if now is None:
                session.must("drop_staged_totals", 1, before.account)
            else:
                more = now.items - before.items, now.bytes - before.bytes
                session.must("change_staged_totals", 1, *more, now.account)


def write_staged(session: SqlSession, rows: Sequence[StagedRow]) -> None:
    """Write staged items in their order: an item may be staged more than once, and the last one counts."""
    places: dict[tuple[object, ...], list[int]] = {}
    for again, some in groupby(rows, key=lambda staged: staged.row.over is not None):
        if again:
            last = {staged.key: staged for staged in some}  # an item may be staged more than once
            session.each(
                "replace_staged", [_again(session, places, each) for each in last.values()]
            )
        else:
            session.each("add_staged", [_at_the_end(session, places, staged) for staged in some])


def _place(
    session: SqlSession, places: dict[tuple[object, ...], list[int]], key: StagedKey
) -> list[int]:
    """Return the attempt, its version and its next row; looked up once for many items."""
    attempt = key.app, key.version, key.part, key.attempt
    found = places.get(attempt)
    if found is None:
        row = session.row("place", *attempt)
        if row is None:
            raise StaleError("attempt", attempt)
        found = places[attempt] = list(row)
    return found


def _at_the_end(
    session: SqlSession, places: dict[tuple[object, ...], list[int]], staged: StagedRow
) -> Values:
    place = _place(session, places, staged.key)
    attempt, version, number = place
    place[2] += 1
    return *_values(staged.row), version, staged.key.node, staged.key.id, attempt, number


def _again(
    session: SqlSession, places: dict[tuple[object, ...], list[int]], staged: StagedRow
) -> Values:
    attempt, version, _ = _place(session, places, staged.key)
    return *_values(staged.row), version, staged.key.node, staged.key.id, attempt


def _values(row: transactions.StagedItem) -> Values:
    draft = row.draft
    times = row.state._value_, draft.priority, row.pause, row.life
    what = packed(draft.headers), draft.group or None, row.sum, draft.payload
    return *times, int(row.known), row.size, *what
