"""Makes the writes of a batch, in an order that keeps all references valid.

New nodes come first, because the other rows refer to them. Then comes the event log, which reads items as they were.
Deleted nodes come last, because items may have left them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import rows
from pubqueue.engine.rows import KINDS, Judged
from pubqueue.model.changes import (
    BeginReview,
    BeginTrim,
    DropFormer,
    EndReview,
    EndSubscriptions,
    EndTrim,
    Forget,
    ForgetEvents,
    NoteSamples,
    PurgeNode,
)
from pubqueue.model.transactions import Abort, Commit, Moved, SetAside, Sweep
from pubqueue.stores.sql import winners
from pubqueue.stores.sql.kinds import sql_of
from pubqueue.stores.sql.node_ids import packed_keys
from pubqueue.stores.sql.samples import note_samples
from pubqueue.stores.sql.writing import committing, nodes, staging
from pubqueue.stores.sql.writing.event_log import record
from pubqueue.stores.sql.writing.items import ItemWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.rows import Writes
    from pubqueue.model.entities import Jid
    from pubqueue.stores.sql.session import SqlSession


def write(session: SqlSession, writes: Writes) -> None:
    """Make the writes.

    Raises:
        StaleError: a row was not as expected; earlier writes are not rolled back here.

    """
    _write_rows(session, writes)
    for change in writes.bulk:
        BULK[type(change)](session, change)


def _write_rows(session: SqlSession, writes: Writes) -> None:
    nodes.add_nodes(session, writes.nodes)
    if writes.events:
        record(session, writes.events, writes.at)
    if writes.items or writes.payloads:
        ItemWrites(session, writes).write()
    if writes.placeless:
        _write_places(session, writes)
    _write_kinds(session, writes)
    nodes.drop_nodes(session, writes.nodes, writes.announce)
    for name, uri in writes.moved.items():
        session.run("move_node", name, uri, writes.at)
    if writes.moved:
        session.run("forget_moved", writes.at - rows.MOVED_FOR, rows.MAX_MOVED)


def _write_kinds(session: SqlSession, writes: Writes) -> None:
    for name, make in ROWS.items():
        if found := getattr(writes, name):
            make(session, found)
    for kind in KINDS if writes.of else ():
        if found := writes.of.get(kind):
            sql_of(kind).write(session, kind, found)
    if writes.staged:
        staging.write_staged(session, writes.staged)


def _write_places(session: SqlSession, writes: Writes) -> None:
    """Give items the places of those that they overwrite, and drop the places of removed items."""
    if writes.overwritten:
        ids = session.contents({node for node, _, _ in writes.overwritten})
        overwritten = [(new, ids[node], old) for node, old, new in writes.overwritten]
        session.many("take_place", overwritten)
    session.many("drop_place", [(seq,) for seq in writes.placeless])


def _drop_receipts(session: SqlSession, seqs: Sequence[int]) -> None:
    session.many("drop_receipts", [(seq,) for seq in seqs])


def _add_receipts(session: SqlSession, receipts: Sequence[tuple[int, Jid]]) -> None:
    session.many("add_receipt", receipts)


def _purge(session: SqlSession, change: PurgeNode) -> None:
    """Give the node new contents; a sweep removes the old ones, slice by slice."""
    node = session.id(change.node)
    session.forget_nodes()
    for query in ("detach_contents", "new_contents", "reset_item_counts", "reset_lock_counts"):
        session.run(query, node)
    session.nodes.forget(change.node)


def _begin_review(session: SqlSession, change: BeginReview) -> None:
    session.run("begin_review", session.id(change.node))


def _end_review(session: SqlSession, change: EndReview) -> None:
    session.run("end_review", session.id(change.node))


def _begin_trim(session: SqlSession, change: BeginTrim) -> None:
    session.run("begin_trim", session.id(change.node))


def _end_trim(session: SqlSession, change: EndTrim) -> None:
    session.run("end_trim", session.id(change.node))


def _end_subscriptions(session: SqlSession, change: EndSubscriptions) -> None:
    jids = packed_keys(change.jids)
    session.must("end_subscriptions", len(change.jids), session.id(change.node), jids)


def _part_with(session: SqlSession, change: DropFormer) -> None:
    if change.through is None:
        session.run("former_notified", change.node)
    else:
        session.run("drop_former", change.node, change.through)


def _forget(session: SqlSession, change: Forget) -> None:
    session.many("forget", session.rows("outdated", change.now, change.limit))
    session.run("forget_settled", change.now, change.limit)
    session.run("forget_ping_answers", change.now, change.limit)
    session.run("forget_answered", change.now, change.limit)
    freed: Counter[str] = Counter()
    for account, size in session.rows("forget_used_keys", change.now, change.limit):
        freed[account] += size
    session.many("free_keys", [(size, account) for account, size in freed.items()])
    session.many("drop_free_keys", [(account,) for account in freed])


def _forget_events(session: SqlSession, change: ForgetEvents) -> None:
    session.run("forget_events", change.through)


# fmt: off
ROWS: Final[dict[str, Callable[[SqlSession, Any], None]]] = {
    "anew":          _drop_receipts,
    "receipts":      _add_receipts,
    "subscriptions": nodes.write_subscriptions,
    "nodes":         nodes.change_nodes,
    "resources":     nodes.write_resources,
    "active":        nodes.write_activity,
    "able":          nodes.write_able,
}
"""What is written after new nodes and items and before the kinds of `KINDS`, in order."""

BULK: Final[dict[type, Callable[[SqlSession, Any], None]]] = {
    PurgeNode:    _purge,
    DropFormer:     _part_with,
    BeginReview:  _begin_review,
    EndReview:    _end_review,
    BeginTrim:    _begin_trim,
    EndTrim:      _end_trim,
    EndSubscriptions: _end_subscriptions,
    Forget:       _forget,
    ForgetEvents: _forget_events,
    NoteSamples:  note_samples,
    SetAside:     winners.set_aside,
    Commit:       committing.commit,
    Moved:        committing.moved,
    Abort:        committing.abort,
    Sweep:        committing.sweep,
    Judged:       winners.judge,
}
# fmt: on
