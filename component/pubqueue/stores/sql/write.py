"""Makes the writes of a batch, in an order that keeps all references valid."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pubqueue.engine import rows
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import KINDS, Judged
from pubqueue.model import changes
from pubqueue.model.entities import State, account_of
from pubqueue.model.joins import membership
from pubqueue.model.records import Event, EventKind
from pubqueue.model.transactions import Abort, Commit, Moved, Restore, SetAside, Sweep
from pubqueue.rules.event_log import REPLACED
from pubqueue.stores.sql import commits, item_pages
from pubqueue.stores.sql.columns import (
    covered_sum,
    packed,
    packed_config,
    packed_terms,
    packed_wait,
    unpacked_config,
)
from pubqueue.stores.sql.kinds import note_samples, sql_of
from pubqueue.stores.sql.session import packed_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.rows import Sign, Write, Writes
    from pubqueue.model.entities import Item, ItemId, Jid, Millis, Node, NodeName, Subscription
    from pubqueue.model.records import LogEntry, PublishedByCommit
    from pubqueue.stores.sql.session import SqlSession, Values


# Writes items: first removes, then changes, then adds.
#
# So an id is free before another item of its node takes it. Items that swap their places are parked in between. Each kind of
# change is one statement for all its items. The most common kinds have their own statements, because every column costs
# time, an indexed column twice.

Place = tuple["NodeName", "ItemId"]

ORDER: Final = (
    *(
        "keep_item",
        "add_done_item",
        "remove_item",
        "park_item",
        "change_lock",
        "change_lock_and_turn",
        "change_item",
        "name_item",
    ),
    *("add_item", "add_waiting_item", "add_any_item", "revive_item", "drop_done_item"),
)
"""The statements, in order, each run once for all its items."""


class ItemWrites:
    """The items of a batch, sorted by the statement that writes them."""

    def __init__(self, session: SqlSession, writes: Writes) -> None:
        self._session = session
        self._payloads, self._large = writes.payloads, dict[int, bytes]()
        most = session.most_in_row
        if max(map(len, self._payloads.values()), default=0) > most:  # these are beside their rows
            self._large = {seq: one for seq, one in self._payloads.items() if len(one) > most}
            self._payloads = self._payloads | dict.fromkeys(self._large, b"")
        self._added: set[int] = set()
        rows = [row for write in writes.items for row in (write.before, write.after)]
        nodes = {row.node for row in rows if row is not None}
        self._ids = session.contents(nodes)
        for name in nodes - self._ids.keys():
            raise StaleError("node", name)
        self._rows: defaultdict[str, list[Values]] = defaultdict(list)
        self._moved: list[tuple[Item, Item]] = []
        self._waits: list[Values] = []
        self._joins: list[Values] = []
        self._sort(writes.items)

    def write(self) -> None:
        """Make the writes."""
        if len(self._moved) > 1:  # it takes two for one to move to the place of another
            parked = self._parked()
            self._rows["park_item"] = [(item.seq,) for item in parked]
            self._rows["name_item"] = [(item.id, item.seq) for item in parked]
        if len(self._payloads) > len(self._added):  # also of items whose rows do not change
            others = self._payloads.keys() - self._added
            self._session.many("change_payload", [(self._payloads[seq], seq) for seq in others])
        for query in ORDER:
            if rows := self._rows.get(query):
                self._session.each(query, rows)
        if self._large:
            self._session.many("add_large", list(self._large.items()))
        if self._waits:
            self._session.many("change_wait", self._waits)
        if self._joins:
            self._session.many("change_joins", self._joins)

    def _sort(self, writes: Sequence[Write[Item]]) -> None:
        for write in writes:
            before, now = write.before, write.after
            if now is not None and now.wait != (None if before is None else before.wait):
                self._waits.append((packed_wait(now.wait), now.seq))
            if now is not None and now.joins and (before is None or before.joins != now.joins):
                self._joins.append((membership(now.joins, now.seq), now.seq))
            if before is not None and before.state is State.DONE:
                self._bring_back(before, now)
            elif now is not None and now.state is State.DONE:
                self._keep(before, now)
            elif before is None:
                if now is not None:
                    self._add(now)
            elif now is None:
                self._rows["remove_item"].append(self._guard(before))
            else:
                self._change(before, now)

    def _keep(self, before: Item | None, now: Item) -> None:
        """Put an item that is done beside its queue."""
        facts = now.id, now.publisher, now.published, now.priority, now.token, now.taken
        rest = now.expires, packed(now.headers), *(now.transaction or (None, None))
        content = now.group or None, now.size, now.sum
        how = now.acquired, now.failed, now.due, now.avoid
        done = now.seq, self._ids[now.node], *facts, *rest, *content, *how
        if before is None:
            self._rows["add_done_item"].append((*done, self._payloads[now.seq]))
            self._added.add(now.seq)
        else:
            self._rows["keep_item"].append(done)
            self._rows["remove_item"].append(self._guard(before))

    def _bring_back(self, before: Item, now: Item | None) -> None:
        """Put an item that was done into its queue, or drop it."""
        node = self._ids[before.node]
        self._rows["drop_done_item"].append((before.seq, node, before.taken))
        if now is None:
            return
        if now.seq in self._payloads:  # it has another one
            self._add(now)
        else:
            values = *_lock_values(now), self._ids[now.node], *_rest(now), now.seq, now.id
            self._rows["revive_item"].append(values)

    def _guard(self, before: Item) -> Values:
        return before.seq, self._ids[before.node], before.state._value_, before.token

    def _parked(self) -> list[Item]:
        """Return the items that move to a place from which another item moves away."""
        left: set[Place] = {(before.node, before.id) for before, _ in self._moved}
        return [now for _, now in self._moved if (now.node, now.id) in left]

    def _change(self, before: Item, now: Item) -> None:
        guard = self._guard(before)
        if _stays(before, now):
            if before.turn == now.turn:
                self._rows["change_lock"].append((*_lock_values(now), *guard))
            else:
                self._rows["change_lock_and_turn"].append(
                    (*_lock_values(now), now.turn or None, *guard)
                )
            return
        if before.node != now.node:
            self._moved.append((before, now))
        values = *_lock_values(now), self._ids[now.node], *_rest(now), *guard
        self._rows["change_item"].append(values)

    def _add(self, item: Item) -> None:
        node, payload = self._ids[item.node], self._payloads[item.seq]
        self._added.add(item.seq)
        if not _is_plain(item):
            values = *_lock_values(item), node, *_rest(item), item.seq, item.id, payload
            self._rows["add_any_item"].append(values)
            return
        facts = item.publisher, item.published, item.priority
        who = item.seq, node, item.id, item.state._value_, *facts
        if item.acquired:
            lock = item.acquired, item.holder, item.deadline, item.token, item.taken
            self._rows["add_item"].append((*who, *lock, item.size, item.sum, payload))
        else:
            self._rows["add_waiting_item"].append((*who, item.size, item.sum, payload))


def _lock_values(item: Item) -> Values:
    """Return the columns that a lock or its end changes."""
    return (
        *(item.state._value_, item.due, item.acquired, item.failed, item.released),
        *(item.holder, item.deadline, item.token, item.avoid, int(item.aside), item.taken),
    )


def _rest(item: Item) -> Values:
    """Return the other columns that may change, without the node."""
    dead = item.dead_letter
    dead_letter = (
        (None, None, None, None, None)
        if dead is None
        else (dead.number, dead.at, dead.reason, dead.origin, dead.holder)
    )
    headers, transaction = packed(item.headers), item.transaction or (None, None)
    facts = item.publisher, item.published, item.priority, item.expires
    last = item.group or None, item.turn or None, item.failure, item.size, item.sum
    return *facts, headers, *dead_letter, *transaction, *last


def _stays(before: Item, now: Item) -> bool:
    """Return whether only the columns of the lock, and the turn, have changed."""
    return (
        before.node == now.node
        and before.dead_letter == now.dead_letter
        and before.expires == now.expires
        and before.headers == now.headers
        and before.size == now.size
        and before.sum == now.sum
        and before.publisher == now.publisher
        and before.transaction == now.transaction
        and before.published == now.published
        and before.priority == now.priority
        and before.group == now.group
        and before.failure == now.failure
    )


def _is_plain(item: Item) -> bool:
    """Return whether the item has only the values that every item has, and a lock."""
    return (
        item.due is None
        and item.expires is None
        and not item.headers
        and item.transaction is None
        and not item.group
        and item.dead_letter is None
        and item.avoid is None
        and not item.failed
        and item.failure is None
        and not item.released
        and not item.aside
        and (item.acquired > 0 or (item.token == 0 and item.taken is None and item.holder is None))
    )


# Appends to the event log, each entry under the next number.


def record(session: SqlSession, entries: Sequence[LogEntry], at: Millis) -> None:
    """Append the entries. A node that does not exist has no log."""
    run: list[Values] = []
    ids = session.ids({entry.node for entry in entries})
    for entry in entries:
        if entry.node not in ids:
            continue
        if isinstance(entry, Event):
            run.append(_values(entry, ids[entry.node], at))
        else:
            session.many("add_event", run)
            run = []
            _record_winners(session, entry, at)
    session.many("add_event", run)


def _values(event: Event, node: int, at: Millis) -> Values:
    return (
        *(at, event.kind._value_, node, event.item, event.attempt, event.worker, event.publisher),
        *(event.age, event.held, event.origin, event.to, event.detail),
    )


def _record_winners(session: SqlSession, winners: PublishedByCommit, at: Millis) -> None:
    where = winners.node, winners.queueing, REPLACED
    session.run("add_superseded", at, EventKind.RETRACTED.value, *where)
    session.run("add_winners", at, EventKind.PUBLISHED.value, *where, winners.publisher)


# Writes nodes, their subscriptions, and available addresses.
#
# Counts are written as differences, so that several processes can share a file.

PEOPLE_AT_ONCE: Final = 1_000
"""Subscriptions, and affiliations, that are deleted at once with their node; more of them are swept."""


def add_nodes(session: SqlSession, writes: Sequence[Write[Node]]) -> None:
    """Add new nodes. They come first, because the other rows refer to them."""
    for write in writes:
        if write.before is None and (node := write.after) is not None:
            facts = node.name, packed_config(node.config), node.creator, node.created
            counts = node.items, node.subscriptions, node.spent, node.bytes
            session.must("add_node", 1, *facts, covered_sum("node", facts), *counts)
            session.must("add_contents", 1, node.name)
            session.run("settle_node", node.name)


def change_nodes(session: SqlSession, writes: Sequence[Write[Node]]) -> None:
    """Write changed settings and counts."""
    counts, rates = [], []
    for write in writes:
        before, now = write.before, write.after
        if before is None or now is None:
            continue
        node = session.known_id(now.name)
        more = (
            now.items - before.items,
            now.bytes - before.bytes,
            now.subscriptions - before.subscriptions,
            now.done - before.done,
            now.done_bytes - before.done_bytes,
        )
        if (before.config, before.creator) != (now.config, now.creator):
            _check_config(session, node, before)
            facts = packed_config(now.config), now.creator
            known = covered_sum("node", (now.name, *facts, now.created), damaged=now.damaged)
            session.must("configure", 1, *facts, known, node)
        if any(more):
            counts.append((*more, node))
        if before.spent != now.spent:
            rates.append((now.spent, node, before.spent))
    session.each("count_node", counts)
    session.each("spend_rate", rates)


def _check_config(session: SqlSession, node: int, before: Node) -> None:
    """Compare the settings with the expected ones; their text may be older than the current fields. Damaged ones are like no others."""
    row = session.row("config", node)
    if row is None or not (before.damaged or unpacked_config(row[0]) == before.config):
        raise StaleError("config", before.name)


def drop_nodes(
    session: SqlSession, writes: Sequence[Write[Node]], announce: Sequence[NodeName]
) -> None:
    """Delete nodes. They come last. The rows that refer to them are left over; if they are many, they are swept in slices."""
    for write in writes:
        before = write.before
        if before is not None and write.after is None:
            node = session.known_id(before.name)
            _check_config(session, node, before)
            must_notify = before.name in announce
            session.must("keep_former", 1, node, int(must_notify))
            session.forget_nodes()
            session.must("drop_node", 1, node)
            if not must_notify:
                session.run("drop_subscriptions", node, PEOPLE_AT_ONCE)
                session.run("drop_affiliations", node, PEOPLE_AT_ONCE)
                session.run("forget_node", node)
            session.nodes.forget(before.name)


def write_subscriptions(session: SqlSession, writes: Sequence[Write[Subscription]]) -> None:
    """Write subscriptions: those that end first, because the same JID may subscribe again."""
    ended, changed, added, otherwise = [], [], [], []
    for write in writes:
        before, now = write.before, write.after
        same = before is not None and now is not None and _is_same(before, now)
        if before is not None and not same:
            ended.append((before.subid,))
        if before is not None and now is not None and same:
            counts = now.in_flight - before.in_flight, now.last_served
            facts = int(now.available), now.unanswered, before.subid
            changed.append((now.queue_requests, *counts, *facts))
            if now != _with_counts_of(now, before):
                terms = _terms(now)
                known = _sum_of(session, now, terms)
                otherwise.append((*terms, known, int(now.quiet), now.subid, before.subid))
        elif now is not None:
            state = now.in_flight, now.last_served, int(now.available), now.unanswered
            who = session.known_id(now.node), now.jid, account_of(now.jid), now.subid
            terms = _terms(now)
            known = _sum_of(session, now, terms)
            added.append((*who, now.queue_requests, *state, *terms, known, int(now.quiet)))
    session.each("drop_subscription", ended)
    session.each("change_subscription", changed)
    session.each("change_terms", otherwise)
    session.each("add_subscription", added)


def _is_same(before: Subscription, now: Subscription) -> bool:
    """Return whether it is the same row: of several subscriptions of a JID the first may have ended."""
    return before.subid == now.subid or bool(before.several)


def _with_counts_of(now: Subscription, before: Subscription) -> Subscription:
    """Return the row before with what `change_subscription` writes."""
    return replace(
        before,
        queue_requests=now.queue_requests,
        in_flight=now.in_flight,
        last_served=now.last_served,
        available=now.available,
        unanswered=now.unanswered,
    )


def _sum_of(session: SqlSession, one: Subscription, terms: Values) -> int:
    columns = session.known_id(one.node), one.jid, one.subid, *terms
    return covered_sum("subscription", columns, damaged=one.damaged)


def _terms(one: Subscription) -> Values:
    """Return the columns of a subscription that seldom change and have a checksum; whether it is quiet has none, as its availability."""
    ends = one.expire, one.remind, int(one.temporary)
    rest = packed_terms(one.several), one.lock_timeout, one.qos and one.qos.value
    return one.state.value, int(one.deliver), *ends, *rest


def write_resources(session: SqlSession, writes: Sequence[Write[Jid]]) -> None:
    """Write the available addresses. No row is guarded: cached presence may be outdated."""
    gone = [(write.before,) for write in writes if write.before is not None]
    come = [(write.after, account_of(write.after)) for write in writes if write.after is not None]
    session.many("drop_resource", gone)
    if come:
        session.many("add_resource", come)


def write_present(session: SqlSession, present: Sequence[Jid]) -> None:
    """Write which known addresses have sent available presence."""
    session.many("note_present", [(jid,) for jid in present])


def write_activity(session: SqlSession, active: Sequence[tuple[Jid, Sign]]) -> None:
    """Write when available addresses were last active."""
    session.many("note_activity", [(*sign, jid) for jid, sign in active])


def write_able(session: SqlSession, able: Sequence[tuple[Jid, bool]]) -> None:
    """Write of available addresses whether their clients have `urn:xmpp:qos`."""
    session.many("note_able", [(int(one), jid) for jid, one in able])


# Makes the writes of a batch, in an order that keeps all references valid.
#
# New nodes come first, because the other rows refer to them. Then comes the event log, which reads items as they were.
# Deleted nodes come last, because items may have left them.


def write(session: SqlSession, writes: Writes) -> None:
    """Make the writes.

    Raises:
        StaleError: a row was not as expected; earlier writes are not rolled back here.

    """
    _write_rows(session, writes)
    for change in writes.bulk:
        BULK[type(change)](session, change)


def _write_rows(session: SqlSession, writes: Writes) -> None:
    add_nodes(session, writes.nodes)
    if writes.events:
        record(session, writes.events, writes.at)
    if writes.items or writes.payloads:
        ItemWrites(session, writes).write()
    if writes.placeless:
        _write_places(session, writes)
    _write_kinds(session, writes)
    drop_nodes(session, writes.nodes, writes.announce)
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
        commits.write_staged(session, writes.staged)


def _write_places(session: SqlSession, writes: Writes) -> None:
    """Give items the places of those that they overwrite, and drop the places of removed items."""
    if writes.overwritten:
        ids = session.contents({node for node, _, _ in writes.overwritten})
        overwritten = [(new, ids[node], old) for node, old, new in writes.overwritten]
        session.many("take_place", overwritten)
    session.many("drop_place", [(seq,) for seq in writes.placeless])


def _drop_receipts(session: SqlSession, seqs: Sequence[int]) -> None:
    session.many("drop_receipts", [(seq,) for seq in seqs])


def _purge(session: SqlSession, change: changes.PurgeNode) -> None:
    """Give the node new contents; a sweep removes the old ones, slice by slice."""
    node = session.id(change.node)
    session.forget_nodes()
    for query in ("detach_contents", "new_contents", "reset_item_counts", "reset_lock_counts"):
        session.run(query, node)
    session.nodes.forget(change.node)


def _run(query: str) -> Callable[[SqlSession, Any], None]:
    """Return a function that runs a statement for the node of a change."""
    return lambda session, change: session.run(query, session.id(change.node))


def _end_subscriptions(session: SqlSession, change: changes.EndSubscriptions) -> None:
    jids = packed_keys(change.jids)
    session.must("end_subscriptions", len(change.jids), session.id(change.node), jids)


def _part_with(session: SqlSession, change: changes.DropFormer) -> None:
    if change.through is None:
        session.run("former_notified", change.node)
    else:
        session.run("drop_former", change.node, change.through)


def _forget(session: SqlSession, change: changes.Forget) -> None:
    session.many("forget", session.rows("outdated", change.now, change.limit))
    session.run("forget_settled", change.now, change.limit)
    session.run("forget_ping_answers", change.now, change.limit)
    session.run("forget_answered", change.now, change.limit)
    freed: Counter[str] = Counter()
    for account, size in session.rows("forget_used_keys", change.now, change.limit):
        freed[account] += size
    session.many("free_keys", [(size, account) for account, size in freed.items()])
    session.many("drop_free_keys", [(account,) for account in freed])


def _note_sums(session: SqlSession, change: changes.NoteSums) -> None:
    for done, query in ((False, "note_sum"), (True, "note_sum_of_done")):
        session.many(
            query, [(known, seq) for seq, is_done, known in change.sums if is_done is done]
        )
    for table, place, known in change.rows:
        session.run(f"note_sum_of_{table}", known, *place)


# fmt: off
ROWS: Final[dict[str, Callable[[SqlSession, Any], None]]] = {
    "anew":          _drop_receipts,
    "receipts":      lambda session, receipts: session.many("add_receipt", receipts),
    "subscriptions": write_subscriptions,
    "nodes":         change_nodes,
    "resources":     write_resources,
    "present":       write_present,
    "active":        write_activity,
    "able":          write_able,
}
"""What is written after new nodes and items and before the kinds of `KINDS`, in order."""

BULK: Final[dict[type, Callable[[SqlSession, Any], None]]] = {
    changes.PurgeNode:    _purge,
    changes.DropFormer:     _part_with,
    changes.BeginReview:  _run("begin_review"),
    changes.EndReview:    _run("end_review"),
    changes.BeginTrim:    _run("begin_trim"),
    changes.EndTrim:      _run("end_trim"),
    changes.EndSubscriptions: _end_subscriptions,
    changes.Forget:       _forget,
    changes.ForgetEvents: lambda session, change: session.run("forget_events", change.through),
    changes.NoteSamples:  note_samples,
    changes.NoteSums:     _note_sums,
    SetAside:     item_pages.set_aside,
    Commit:       commits.commit,
    Moved:        commits.moved,
    Abort:        commits.abort,
    Restore:      commits.restore,
    Sweep:        commits.sweep,
    Judged:       item_pages.judge,
}
# fmt: on
