"""Makes changes in SQLite, each guarded by what its rule believed: other rows found is StaleError."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pubqueue.app.ports import StaleError
from pubqueue.core import changes as c
from pubqueue.core.model import Affiliation, bare
from pubqueue.stores.sqlite import txn_changes
from pubqueue.stores.sqlite.events import forget
from pubqueue.stores.sqlite.headers import packed
from pubqueue.stores.sqlite.queries import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.core.changes import Change
    from pubqueue.stores.sqlite.counts import Counts

    Connection = sqlite3.Connection

MOST_RESOURCES: Final = 100_000
"""Full JIDs that are remembered to be here; the locks of one that is forgotten still time out."""


def apply(connection: Connection, counts: Counts, changes: Sequence[Change]) -> None:
    """Make the changes in order.

    Raises:
        StaleError: a change met something else than believed; what came before it is not undone here.

    """
    try:
        _make_all(connection, counts, changes)
    except sqlite3.IntegrityError as problem:  # a constraint is a guard as well
        raise StaleError(str(problem)) from problem


def _make_all(connection: Connection, counts: Counts, changes: Sequence[Change]) -> None:
    if len(changes) > 1 and all(type(change) is c.Lock for change in changes):
        _lock_all(connection, counts, changes)  # the commonest long run, in one call
        return
    for change in changes:
        make = _MAKE.get(type(change))
        if make is not None:
            make(connection, change)
        else:
            _MAKE_AND_COUNT[type(change)](connection, counts, change)


def _must(connection: Connection, query: str, *values: object) -> None:
    """Run a statement that has to find its row."""
    if connection.execute(SQL[query], values).rowcount != 1:
        raise StaleError(query)


def _may(connection: Connection, query: str, *values: object) -> None:
    """Run a statement that may find any number of rows."""
    connection.execute(SQL[query], values)


def _create_node(connection: Connection, change: c.CreateNode) -> None:
    node = change.node
    config = msgspec.json.encode(node.config).decode()
    _must(connection, "create_node", node.name, config, node.creator, node.created)


def _configure_node(connection: Connection, change: c.ConfigureNode) -> None:
    config = msgspec.json.encode(change.config).decode()
    _must(connection, "configure_node", config, change.node)


def _delete_node(connection: Connection, counts: Counts, change: c.DeleteNode) -> None:
    counts.write()  # what is counted so far is not about a later node of this name
    _must(connection, "delete_node", change.node)


def _purge_node(connection: Connection, counts: Counts, change: c.PurgeNode) -> None:
    counts.write()
    for query in ("purge_node", "no_items", "no_locks"):
        _may(connection, query, change.node)


def _set_affiliation(connection: Connection, change: c.SetAffiliation) -> None:
    if change.affiliation is Affiliation.NONE:
        _may(connection, "drop_affiliation", change.node, change.jid)
    else:
        _must(connection, "set_affiliation", change.node, change.jid, change.affiliation)


def _add_subscription(connection: Connection, change: c.AddSubscription) -> None:
    s = change.subscription
    _must(
        connection,
        "add_subscription",
        *(s.node, s.jid, bare(s.jid), s.subid, s.queue_requests, s.in_flight),
    )


def _set_window(connection: Connection, change: c.SetWindow) -> None:
    _must(connection, "set_window", change.queue_requests, change.node, change.jid)


def _set_available(connection: Connection, change: c.SetAvailable) -> None:
    _must(connection, "set_available", change.available, change.node, change.jid)


def _note_bounces(connection: Connection, change: c.NoteBounces) -> None:
    _must(connection, "note_bounces", change.bounces, change.node, change.jid)


def _note_resource(connection: Connection, change: c.NoteResource) -> None:
    _may(connection, "note_resource", change.jid, bare(change.jid))
    _may(connection, "crowd_out", MOST_RESOURCES)


def _forget_resource(connection: Connection, change: c.ForgetResource) -> None:
    _may(connection, "forget_resource", change.jid)


def _end_subscription(connection: Connection, counts: Counts, change: c.EndSubscription) -> None:
    counts.write()  # nor about a later subscription of this JID
    _must(connection, "end_subscription", change.node, change.jid)


def _add_item(connection: Connection, counts: Counts, change: c.AddItem) -> None:
    draft = change.draft
    counts.item(change.node, 1)
    _must(
        connection,
        "add_item",
        *(change.node, draft.id, change.state, change.publisher, change.published),
        *(draft.priority, change.due, change.expires, *(change.txn or (None, None))),
        *(packed(draft.headers), draft.payload),
    )


def _replace_payload(connection: Connection, change: c.ReplacePayload) -> None:
    _must(
        connection,
        "replace_payload",
        *(change.payload, packed(change.headers), change.publisher, change.item.seq),
    )


def _lock(connection: Connection, counts: Counts, change: c.Lock) -> None:
    _must(connection, "lock", *_lock_values(change))
    counts.locked(change.item.node, change.holder, change.token)


def _lock_values(change: c.Lock) -> tuple[object, ...]:
    item = change.item
    return change.holder, change.deadline, change.token, change.at, item.seq, item.state, item.token


def _lock_all(connection: Connection, counts: Counts, changes: Sequence[Any]) -> None:
    values = [_lock_values(change) for change in changes]
    if connection.executemany(SQL["lock"], values).rowcount != len(values):
        raise StaleError("lock")
    for change in changes:
        counts.locked(change.item.node, change.holder, change.token)


def _release(connection: Connection, counts: Counts, change: c.Release) -> None:
    item = change.item
    counts.freed(item.node, item.holder)
    _must(
        connection,
        "release",
        *(change.state, change.due, change.failed, change.released, item.seq, item.token),
    )
    _may(connection, "add_receipt", item.seq, item.holder)


def _postpone(connection: Connection, change: c.Postpone) -> None:
    _must(connection, "postpone", change.due, change.item.seq)


def _ripen(connection: Connection, change: c.Ripen) -> None:
    _may(connection, "ripen", change.node, change.now)


def _forget(connection: Connection, change: c.Forget) -> None:
    _may(connection, "forget", change.now)


def _bury(connection: Connection, counts: Counts, change: c.Bury) -> None:
    item = change.item
    counts.freed(item.node, item.holder)
    believed = (item.seq, item.state, item.token)
    _may(connection, "tokens", 1)  # deaths are numbered, with numbers that only rise
    if change.to is None:
        _must(connection, "bury", change.at, change.reason, change.failed, *believed)
        if item.holder is not None:
            _may(connection, "add_receipt", item.seq, item.holder)
        return
    _must(connection, "entomb", change.to, change.at, change.reason, item.node, *believed)
    _may(connection, "drop_receipts", item.seq)
    counts.item(item.node, -1)
    counts.item(change.to, 1)


def _extend(connection: Connection, change: c.Extend) -> None:
    _must(connection, "extend", change.deadline, change.item.seq, change.item.token)


def _revive(connection: Connection, counts: Counts, change: c.Revive) -> None:
    item = change.item
    _must(connection, "revive", change.to, item.seq, item.state, item.token)
    _may(connection, "drop_receipts", item.seq)
    counts.item(item.node, -1)
    counts.item(change.to, 1)


def _remove_item(connection: Connection, counts: Counts, change: c.RemoveItem) -> None:
    item = change.item
    counts.item(item.node, -1)
    counts.freed(item.node, item.holder, retracted=True)
    if change.absorb_until is not None:
        until = change.absorb_until
        _must(connection, "add_finished", item.node, item.id, change.digest, until)
    _must(connection, "remove_item", item.seq, item.state, item.token)


_MAKE: Final[dict[type, Callable[[Connection, Any], None]]] = {
    c.CreateNode: _create_node,
    c.ConfigureNode: _configure_node,
    c.SetAffiliation: _set_affiliation,
    c.AddSubscription: _add_subscription,
    c.SetWindow: _set_window,
    c.SetAvailable: _set_available,
    c.NoteBounces: _note_bounces,
    c.NoteResource: _note_resource,
    c.ForgetResource: _forget_resource,
    c.ReplacePayload: _replace_payload,
    c.Postpone: _postpone,
    c.Ripen: _ripen,
    c.Forget: _forget,
    c.ForgetEvents: forget,
    c.Extend: _extend,
}

_MAKE_AND_COUNT: Final[dict[type, Callable[[Connection, Counts, Any], None]]] = {
    c.DeleteNode: _delete_node,
    c.PurgeNode: _purge_node,
    c.EndSubscription: _end_subscription,
    c.AddItem: _add_item,
    c.Lock: _lock,
    c.Release: _release,
    c.Bury: _bury,
    c.Revive: _revive,
    c.RemoveItem: _remove_item,
    **txn_changes.MAKE_AND_COUNT,
}
