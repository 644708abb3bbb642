"""Makes writes, row by row, each guarded by what its batch believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.app import rows as bounds
from pubqueue.app.ports import StaleError
from pubqueue.stores.memory.nodes import NumberedNode
from pubqueue.stores.memory.staging import NumberedAttempt, NumberedVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.rows import StagedRow, Write, Writes
    from pubqueue.core.model import Item, Millis, Node, NodeName, Subscription
    from pubqueue.core.transactions.model import Attempt, Version
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.table import K, Table, V


def write_rows(contents: Contents, writes: Writes) -> None:
    """Make all writes but those in bulk; nodes that are new, and the events, are there already.

    Raises:
        StaleError: a row was not what was believed; what came before it is not undone here.

    """
    if writes.affiliations or writes.subscriptions or writes.resources:
        _write_people(contents, writes)
    for _, old, new in writes.overwritten:
        contents.items.places.put(new, contents.items.place(old))
    if writes.items or writes.payloads:
        _write_items(contents, writes)
    for seq in contents.items.places.rows.keys() & set(writes.placeless):
        contents.items.places.put(seq, None)
    if writes.anew or writes.receipts:
        _write_receipts(contents, writes)
    if writes.finished:
        plain(contents.items.finished, writes.finished, lambda row: (row.node, row.id))
        _must_be_of_nodes(contents, (one.after.node for one in writes.finished if one.after))
    if writes.apps or writes.versions or writes.attempts or writes.waiting or writes.staged:
        _write_transactions(contents, writes)
    plain(contents.schedules.schedules, writes.schedules, lambda row: row.name)
    remove_nodes(contents, writes)  # items may have left them


def expect(believed: object, there: object) -> None:
    """See to it that the row is what was believed.

    Raises:
        StaleError: it is not.

    """
    if believed is not there and believed != there:
        raise StaleError(f"{believed!r} was believed, and {there!r} is there")


def plain(table: Table[K, V], writes: Iterable[Write[V]], key_of: Callable[[V], K]) -> None:
    """Write rows of a table that keeps them as they are: first those that go, then the others."""
    for one in sorted(writes, key=lambda one: one.after is not None):
        row = one.after if one.before is None else one.before
        if row is not None:
            key = key_of(row)
            expect(one.before, table.rows.get(key))
            table.put(key, one.after)


def _must_be_of_nodes(contents: Contents, names: Iterable[NodeName]) -> None:
    for name in names:
        if contents.nodes.node(name) is None:
            raise StaleError(f"node {name} is not there")


# --- nodes and those around them -----------------------------------------------------------------


def write_nodes(contents: Contents, writes: Writes) -> None:
    """Write the nodes that are new or change, with what is added to their counters."""
    for one in writes.nodes:
        now, before = one.after, one.before
        if now is None:
            continue
        there = contents.nodes.node(now.name)
        _expect_node(before, there)
        if before is None or there is None:
            contents.nodes.nodes.put(now.name, NumberedNode(contents.number("node"), now))
            contents.nodes.moved.put(now.name, None)
        else:
            items = there.items + now.items - before.items
            subscriptions = there.subscriptions + now.subscriptions - before.subscriptions
            contents.nodes.change(replace(now, items=items, subscriptions=subscriptions))


def remove_nodes(contents: Contents, writes: Writes) -> None:
    """Remove nodes with all that hangs on them."""
    for one in writes.nodes:
        if one.before is not None and one.after is None:
            _expect_node(one.before, contents.nodes.node(one.before.name))
            if one.before.name in writes.telling:
                contents.nodes.leave_behind(one.before.name)
            contents.delete(one.before.name)
    for name, uri in writes.moved.items():
        contents.nodes.moved.put(name, (writes.at, uri))
    if writes.moved:
        _forget_moved(contents, writes.at)


def _forget_moved(contents: Contents, at: Millis) -> None:
    """Forget where those of long ago are, and the oldest of too many."""
    moved = contents.nodes.moved
    newest = sorted(((row[0], name) for name, row in moved.rows.items()), reverse=True)
    for place, (noted, name) in enumerate(newest):
        if place >= bounds.MOST_MOVED or noted < at - bounds.MOVED_FOR:
            moved.put(name, None)


def _expect_node(believed: Node | None, there: Node | None) -> None:
    """Leave the counters aside: others count too."""
    if believed is not None and there is not None:
        counted = {"items": there.items, "subscriptions": there.subscriptions}
        believed = replace(believed, **counted)
    expect(believed, there)


def _write_people(contents: Contents, writes: Writes) -> None:
    nodes = contents.nodes
    plain(nodes.affiliations, writes.affiliations, lambda row: (row.node, row.account))
    _must_be_of_nodes(contents, (one.after.node for one in writes.affiliations if one.after))
    for one in sorted(writes.subscriptions, key=lambda one: one.after is not None):
        _write_subscription(contents, one)
    for jid in writes.resources:
        if jid.before is not None and jid.after is None:
            nodes.resources.put(jid.before, None)
        elif jid.after is not None and jid.after not in nodes.resources.rows:
            nodes.resources.put(jid.after, contents.number("place"))


def _write_subscription(contents: Contents, one: Write[Subscription]) -> None:
    row = one.after if one.before is None else one.before
    if row is None:
        return
    kept = contents.nodes.subscriptions.rows.get((row.node, row.jid))
    there = None if kept is None else kept.subscription
    if one.before is None or there is None:
        expect(one.before, there)
    else:
        expect(replace(one.before, in_flight=there.in_flight), there)
    if one.after is None:
        contents.nodes.subscriptions.put((row.node, row.jid), None)
        return
    _must_be_of_nodes(contents, [row.node])
    more = 0 if one.before is None or there is None else there.in_flight - one.before.in_flight
    now = replace(one.after, in_flight=one.after.in_flight + more) if more else one.after
    contents.nodes.subscribe(now, contents.number("place") if there is None else 0)


# --- items ---------------------------------------------------------------------------------------


def _write_items(contents: Contents, writes: Writes) -> None:
    """Let items go first, from the store or from their node, so that others can take their ids."""
    items, entering = contents.items.items, []
    for one in writes.items:
        before, now = one.before, one.after
        if before is None:
            if now is not None:
                entering.append(now)
            continue
        expect(before, items.rows.get(before.seq))
        if now is None:
            contents.items.remove(before.seq)
        elif now.node != before.node:
            items.put(before.seq, None)
            entering.append(now)
        else:
            items.put(now.seq, now)
    for item in entering:
        _enter(contents, item)
    for seq, payload in writes.payloads.items():
        if seq in items.rows:
            contents.items.payloads.put(seq, payload)


def _enter(contents: Contents, item: Item) -> None:
    items = contents.items
    if item.seq in items.items.rows or items.find(item.node, item.id) is not None:
        raise StaleError(f"another item is where {item.id} should be in node {item.node}")
    _must_be_of_nodes(contents, [item.node])
    contents.reserve("item", item.seq)
    items.items.put(item.seq, item)


def _write_receipts(contents: Contents, writes: Writes) -> None:
    """Add receipts of items that are there; those of others have gone with them."""
    receipts = contents.items.receipts
    for seq in writes.anew:
        if seq in receipts.rows:
            receipts.put(seq, None)
    for seq, jid in writes.receipts:
        known = receipts.rows.get(seq, ())
        if seq in contents.items.items.rows and jid not in known:
            receipts.put(seq, (*known, jid))


# --- what waits for a commit ---------------------------------------------------------------------


def _write_transactions(contents: Contents, writes: Writes) -> None:
    plain(contents.staging.apps, writes.apps, lambda row: row.name)
    _write_versions(contents, writes.versions)
    _write_attempts(contents, writes.attempts)
    plain(contents.staging.waiting, writes.waiting, lambda row: row.account)
    for row in writes.staged:
        _stage(contents, row)


def _write_versions(contents: Contents, writes: Iterable[Write[Version]]) -> None:
    for one in writes:
        row = one.after if one.before is None else one.before
        if row is None:
            continue
        key = row.app, row.number
        opened = contents.staging.versions.rows.get(key)
        expect(one.before, None if opened is None else opened.version)
        if one.after is None:
            contents.staging.drop(key)
        else:
            number = contents.number("record") if opened is None else opened.number
            contents.staging.versions.put(key, NumberedVersion(number, one.after))


def _write_attempts(contents: Contents, writes: Iterable[Write[Attempt]]) -> None:
    staging = contents.staging
    for one in writes:
        row = one.after if one.before is None else one.before
        if row is None:
            continue
        key = row.app, row.version, row.part, row.number
        known = staging.attempts.rows.get(key)
        expect(one.before, None if known is None else known.attempt)
        if one.after is None:
            staging.drop_attempt(key)
            continue
        opened = _there(staging.versions, (row.app, row.version))
        number = contents.number("attempt") if known is None else known.number
        staging.attempts.put(key, NumberedAttempt(number, opened.number, one.after))


def _stage(contents: Contents, one: StagedRow) -> None:
    key, staging = one.key, contents.staging
    attempt = _there(staging.attempts, (key.app, key.version, key.part, key.attempt))
    place = attempt.number, key.node, key.id
    if (one.row.over is None) is not (place not in staging.staged.rows):
        raise StaleError(f"what is staged under {key.id} is not what was believed")
    staging.staged.put(place, (attempt.version, one.row))


def _there(table: Table[K, V], key: K) -> V:
    row = table.rows.get(key)
    if row is None:
        raise StaleError(f"{key!r} is not there")
    return row
