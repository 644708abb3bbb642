"""Makes changes in the working set, and gathers what the store has to write: before -> after, by kind of row.

What a change makes of its row says `core.after`; everything else follows from the two: counters, receipts, the
groups a row is in, the queues to look at, the next moment at which something ends. A change of many rows at once
(a purge, a commit) is made by the store, after all that came before it is written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace

from pubqueue.app.crowd_windows import CROWD, CrowdWindows
from pubqueue.app.free_windows import FreeWindows
from pubqueue.app.listings import FreeSubscriptions
from pubqueue.app.numbers import Numbers
from pubqueue.app.pending import Pending
from pubqueue.app.ports import StaleError
from pubqueue.app.row_cache import ABSENT
from pubqueue.app.rows import (
    Finished,
    Needs,
    NotedKey,
    StagedKey,
    StagedRow,
)
from pubqueue.core import changes as c
from pubqueue.core.addresses import account_of
from pubqueue.core.after import (
    after,
    begins_anew,
    has_room,
    is_ready,
    lost_by,
    node_after,
    staged,
    subscription_after,
)
from pubqueue.core.event_log import EVENTS
from pubqueue.core.model import Millis, State
from pubqueue.core.transactions import model as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.rows import Bulk, BulkChange
    from pubqueue.app.working_set import WorkingSet
    from pubqueue.core.changes import Change, ItemChange, SubscriptionChange
    from pubqueue.core.model import Item, Jid, Node, NodeName, Subscription

    Holder = tuple[NodeName, Jid]

NEVER: Final = Millis(1 << 62)


class ChangeApplier:
    """What a process does to its working set; `touched` are the nodes to hand out items of."""

    def __init__(self, rows: WorkingSet, reaches: Callable[[Jid], bool]) -> None:
        self._rows = rows
        self._reaches = reaches
        self._cache = rows.cache
        rows.before_reading = self.flush
        self._tokens = Numbers("token")
        self._numbers = Numbers("item")
        self.now = Millis(0)
        self.touched: dict[NodeName, None] = {}
        self.soonest = NEVER
        """When something ends next, of what this batch has changed."""
        self.unsure = True
        """Something may end sooner than this process knows of."""
        self._forgot = False
        self.flushed = False
        """Something was written that undoing in memory does not take back."""
        self._renew()

    def _renew(self) -> None:
        self._pending = Pending()
        self._counts: dict[NodeName, int] = {}
        self._locks: dict[tuple[NodeName, Jid], tuple[int, int, bool]] = {}

    def begin(self, now: Millis, *, foreign: bool) -> None:
        """Begin a batch."""
        self.now = now
        self.touched = {}
        self.soonest = NEVER
        self.unsure = foreign or self._forgot
        self._forgot = False
        if foreign:
            self._tokens.forget()
            self._numbers.forget()

    def forget(self) -> None:
        """Know nothing any more: the transaction has come to nothing, and with it what was reserved."""
        self._cache.forget()
        self._forgot = True
        self._renew()
        self._tokens.forget()
        self._numbers.forget()

    def has_changed(self, seq: int) -> bool:
        """Say whether this batch has changed the item and not written it yet."""
        return seq in self._pending.items

    def soonest_or_none(self) -> Millis | None:
        """Return when something ends next, of what this batch has changed."""
        return None if self.soonest == NEVER else self.soonest

    def tokens(self, count: int) -> int:
        """Return the first of so many lock tokens; those that are used are taken by their locks."""
        return self._tokens.first(self._rows.tx, count)

    # --- one request ---

    def begin_request(self) -> None:
        """Let what comes now be undone, should it fail."""
        self._cache.journal.clear()
        self.flushed = False

    def make(self, asked: object, changes: Iterable[Change]) -> None:
        """Make the changes that the request `asked` makes (None: a dispatch), in order.

        Raises:
            StaleError: a change believes something else than is known.

        """
        for change in changes:
            self._MAKE[type(change)](self, asked, change)

    # --- items ---

    def _item(self, asked: object, change: ItemChange) -> None:
        if isinstance(change, c.AddItem):
            before = None
            change = replace(change, seq=self._numbers.take(self._rows.tx))
            self._cache.put(self._cache.payloads, change.seq, change.draft.payload)
        else:
            before = change.item
            found = self._cache.numbered.get(before.seq, before)
            if found is not before and found != before:
                raise StaleError(f"item {before.seq} is not what was believed")
        if isinstance(change, c.GiveUp):
            change = replace(change, number=self._tokens.take(self._rows.tx))
        elif isinstance(change, c.ReplacePayload):
            self._cache.put(self._cache.payloads, change.item.seq, change.payload)
            self._cache.put(self._pending.replaced, change.item.seq, None)
        elif isinstance(change, c.Lock):
            self._tokens.used(change.token)
        elif isinstance(change, c.RemoveItem) and change.absorb_until is not None:
            self._absorb(change, change.absorb_until)
        now = after(change)
        self._tell(asked, change, before, now)
        self._put_item(before, now)

    def _absorb(self, change: c.RemoveItem, until: Millis) -> None:
        key = change.item.node, change.item.id
        before = self._cache.finished.get(key)
        row = Finished(*key, change.digest, until)
        if key not in self._pending.finished:
            self._cache.put(self._pending.finished, key, before)
        self._cache.put(self._cache.finished, key, row)

    def _put_item(self, before: Item | None, now: Item | None) -> None:
        cache, put = self._cache, self._cache.put
        row = now if now is not None else before
        assert row is not None
        seq = row.seq
        if seq not in self._pending.items:
            put(self._pending.items, seq, before)
        put(cache.numbered, seq, now)
        if before is not None and (now is None or now.node != before.node):
            put(cache.items, (before.node, before.id), None)
            cache.passing.append((before.node, before.id, seq))
            self._count(before.node, -1)
        if now is not None and (before is None or now.node != before.node):
            self._count(now.node, 1)
        if now is not None:
            put(cache.items, (now.node, now.id), now)
            cache.passing.append((now.node, now.id, seq))
            self._note_moment(now)
        self._note_ready(before, now)
        self._note_holder(before, now)

    def _note_moment(self, now: Item) -> None:
        moment = now.deadline if now.state is State.LOCKED else now.expires
        if now.state is State.DELAYED and now.due is not None:
            moment = now.due if moment is None else min(moment, now.due)
        if moment is not None and moment < self.soonest and now.state is not State.DEAD:
            self.soonest = moment

    def _note_ready(self, before: Item | None, now: Item | None) -> None:
        cache = self._cache
        if before is not None and before.seq in cache.ready.get(before.node, ()):
            cache.drop(cache.ready[before.node], before.seq)
        if now is not None and is_ready(now):
            cache.put(cache.ready[now.node], now.seq, now)
            self.touched[now.node] = None

    def _note_holder(self, before: Item | None, now: Item | None) -> None:
        held = None if before is None else before.holder
        holds = None if now is None else now.holder
        if before is not None and now is not None:
            self._note_receipts(before, now)
        cache = self._cache
        if held is not None and before is not None:
            if (group := cache.held.get(held)) is not None:
                cache.drop(group, before.seq)
            if held != holds:
                self.touched[before.node] = None
                self._lock(before.node, held, -1, 0, reached=now is None)
        if holds is not None and now is not None:
            if (group := cache.held.get(holds)) is not None:
                cache.put(group, now.seq, now)
            if held != holds:
                self._lock(now.node, holds, 1, now.token, reached=False)

    def _note_receipts(self, before: Item, now: Item) -> None:
        if (loser := lost_by(before, now)) is not None:
            self._keep_receipt(before.seq, loser)
        elif begins_anew(before, now):
            self._forget_receipts(before.seq)

    def _keep_receipt(self, seq: int, jid: Jid) -> None:
        self._cache.put(self._pending.receipts, (seq, jid), None)
        if (group := self._cache.receipts.get(seq)) is not None:
            self._cache.put(group, jid, None)

    def _forget_receipts(self, seq: int) -> None:
        self._cache.put(self._pending.anew, seq, None)
        self._cache.put(self._cache.receipts, seq, {})
        for key in [key for key in self._pending.receipts if key[0] == seq]:
            self._cache.drop(self._pending.receipts, key)

    # --- counters, which stand in rows that need not be known yet ---

    def _count(self, node: NodeName, by: int) -> None:
        """Count items of a node; at once where a bound is to be held, else with the others of the batch."""
        row = self._cache.nodes.get(node)
        if row is not None and row.config.max_items is not None:
            self._put_node(node, replace(row, items=row.items + by))
        else:
            self._cache.put(self._counts, node, self._counts.get(node, 0) + by)

    def _lock(self, node: NodeName, jid: Jid, by: int, token: int, *, reached: bool) -> None:
        """Count locks of a holder, with the others of the batch: nobody but dispatch looks at them."""
        key = node, jid
        was = self._locks.get(key)
        sums = (by, token, reached)
        if was is not None:
            sums = was[0] + by, max(was[1], token), was[2] or reached
        self._cache.put(self._locks, key, sums)

    def resolve(self) -> None:
        """Count what has gathered for rows that were not known."""
        if not self._counts and not self._locks:
            return
        counts, locks = self._counts, self._locks
        self._counts, self._locks = {}, {}
        self._load_counted(counts, locks)
        for node, by in counts.items():
            if (found := self._cache.nodes.get(node)) is not None:
                self._put_node(node, replace(found, items=found.items + by))
        for (node, jid), (by, token, reached) in locks.items():
            if (row := self._cache.subscription(node, jid)) is not None:
                self._put_subscription(row, _relocked(row, by, token, reached=reached))

    def _load_counted(self, nodes: Iterable[NodeName], holders: Iterable[Holder]) -> None:
        """Load the rows that have something to count and are not known."""
        needs = Needs()
        needs.nodes.update(node for node in nodes if node not in self._cache.nodes)
        for node, jid in holders:
            if self._cache.subscription(node, jid) is ABSENT:
                needs.subscriptions.add((node, account_of(jid)))
        if needs.nodes or needs.subscriptions:
            self._cache.fill(needs, self._rows.tx.load(needs))

    # --- nodes and those around them ---

    def _put_node(self, name: NodeName, now: Node | None) -> None:
        if name not in self._pending.nodes:
            self._cache.put(self._pending.nodes, name, self._cache.nodes.get(name))
        self._cache.put(self._cache.nodes, name, now)

    def _node(self, asked: object, change: c.CreateNode | c.ConfigureNode | c.DeleteNode) -> None:
        name = change.node.name if isinstance(change, c.CreateNode) else change.node
        before = self._cache.nodes.get(name)
        if (before is None) != isinstance(change, c.CreateNode):
            raise StaleError(f"node {name} is there, or not, against what was believed")
        self._tell(asked, change, None, None)
        if isinstance(change, c.DeleteNode):
            self.flush()
        self._put_node(name, node_after(change, before))
        self.touched[name] = None
        if isinstance(change, c.DeleteNode):
            self._write()
            self._cache.forget()

    def _affiliation(self, _asked: object, change: c.SetAffiliation) -> None:
        key = change.node, change.jid
        before = self._rows.affiliation(*key)
        if self._rows.lacking:
            self._rows.load()
            before = self._rows.affiliation(*key)
        if key not in self._pending.affiliations:
            self._cache.put(self._pending.affiliations, key, before)
        self._cache.put(self._cache.affiliations, key, change.affiliation)

    def _subscription(self, _asked: object, change: SubscriptionChange) -> None:
        added = change.subscription if isinstance(change, c.AddSubscription) else None
        node = change.subscription.node if isinstance(change, c.AddSubscription) else change.node
        jid = change.subscription.jid if isinstance(change, c.AddSubscription) else change.jid
        before = self._cache.subscription(node, jid)
        if before is ABSENT:
            self._rows.needs.subscriptions.add((node, account_of(jid)))
            self._rows.load()
            before = self._cache.subscription(node, jid)
        if (before is None) != (added is not None):
            raise StaleError(f"{jid} subscribes to {node}, or not, against what was believed")
        now = subscription_after(change, before)
        self._put_subscription(before, now)
        if now is None or has_room(now):
            self.touched[node] = None
        if (before is None) != (now is None):
            # what is counted so far is not about a later subscription of this JID, which knows what it holds
            self._cache.drop(self._locks, (node, jid))
            if (row := self._cache.nodes.get(node)) is not None:
                by = 1 if before is None else -1
                self._put_node(node, replace(row, subscriptions=row.subscriptions + by))

    def _put_subscription(self, before: Subscription | None, now: Subscription | None) -> None:
        cache, put = self._cache, self._cache.put
        row = now if now is not None else before
        assert row is not None
        node, jid, account = row.node, row.jid, account_of(row.jid)
        if (node, jid) not in self._pending.subscriptions:
            put(self._pending.subscriptions, (node, jid), before)
        everybody = cache.in_node.get(node)
        if everybody is not None and (node, account) not in cache.of_account:
            put(cache.of_account, (node, account), {})
        for group, key in (
            (everybody, jid),
            (cache.of_account.get((node, account)), jid),
            (cache.everywhere.get(account), (node, jid)),
            (cache.of_jid.get(jid), node),
        ):
            if group is not None and now is None:
                cache.drop(group, key)
            elif group is not None:
                put(group, key, now)
        if (windows := cache.windows.get(node)) is not None:
            windows.move(before, now)
        if before is None or now is None:
            cache.audiences.pop(node, None)

    def windows(self, node: NodeName) -> FreeWindows | CrowdWindows | None:
        """Return the free windows of the node's subscribers, None if these have to be loaded first."""
        found = self._cache.windows.get(node)
        if found is not None:
            return found
        if (everybody := self._cache.in_node.get(node)) is not None:
            found = self._cache.windows[node] = FreeWindows(everybody, self._reaches)
        elif (row := self._cache.nodes.get(node)) is not None and row.subscriptions > CROWD:
            page = partial(self._rows.page, FreeSubscriptions(node))
            found = self._cache.windows[node] = CrowdWindows(page, self._reaches)
        return found

    def _resource(self, _asked: object, change: c.NoteResource | c.ForgetResource) -> None:
        group = self._cache.resources.get(account_of(change.jid), {})
        here = isinstance(change, c.NoteResource)
        if change.jid not in self._pending.resources:
            self._cache.put(self._pending.resources, change.jid, change.jid in group)
        if here:
            self._cache.put(group, change.jid, None)
        else:
            self._cache.drop(group, change.jid)

    # --- what waits for a commit ---

    def _stage(self, _asked: object, change: t.Stage) -> None:
        mark, cache, put = change.mark, self._cache, self._cache.put
        attempt = mark.app, mark.version, mark.part, mark.attempt
        keys = (
            ("apps", mark.app),
            ("versions", (mark.app, mark.version)),
            ("attempts", attempt),
            ("waiting", change.owner),
            ("waiting", ""),
        )
        befores = [getattr(cache, table).get(key) for table, key in keys]
        for place, before, now in zip(keys, befores, staged(change, *befores), strict=True):
            if place not in self._pending.staging:
                put(self._pending.staging, place, before)
            put(getattr(cache, place[0]), place[1], now)
        for row in change.rows:
            key = StagedKey(*attempt, change.node, row.draft.id)
            put(cache.staged, key, row.size)
            put(self._pending.staged, len(self._pending.staged), StagedRow(key, row))
            if mark.immediate:
                noted = NotedKey(mark.app, mark.version, change.node, row.draft.id)
                put(cache.noted, noted, (row.draft.payload, row.known))
        self.soonest = min(self.soonest, change.until)

    # --- many rows at once ---

    def _bulk(self, asked: object, change: BulkChange) -> None:
        self.flush()
        self._tell(asked, change, None, None)
        self._write(change)
        self.unsure = True
        if isinstance(change, c.Forget):
            self._cache.finished.clear()
        elif not isinstance(change, c.ForgetEvents):
            self._cache.forget()
        if isinstance(change, t.Commit):
            self._numbers.forget()  # its items are numbered behind the block
            self.touched.update(dict.fromkeys(committed.node for committed in change.nodes))

    # --- the event log ---

    def _logs(self, name: NodeName) -> bool:
        row = self._cache.nodes.get(name, ABSENT)
        if row is ABSENT:
            self._rows.needs.nodes.add(name)
            self._rows.load()
            row = self._cache.nodes[name]
        return row is not None and row.config.event_log

    def _tell(self, asked: object, change: Change, before: Item | None, now: Item | None) -> None:
        """Keep what the change means for the logs of the nodes it is about."""
        here = now or before
        if here is not None and not self._logs(here.node):
            moved = before is not None and before.node != here.node
            if not (moved and before is not None and self._logs(before.node)):
                return
        for entry in EVENTS[type(change)](asked, change, self.now):
            if self._logs(entry.node):
                self._cache.put(self._pending.events, len(self._pending.events), entry)

    # --- writing ---

    def flush(self) -> None:
        """Write what has gathered, so that what is read next shows it."""
        self.resolve()
        if not self._pending.is_empty():
            self._write()

    def _write(self, *bulk: Bulk) -> None:
        writes = self._pending.writes(self._cache, self.now)
        writes.bulk.extend(bulk)
        self._renew()
        self.flushed = True
        self._rows.tx.write(writes)

    # fmt: off
    _MAKE: ClassVar[dict[type, Callable[[ChangeApplier, object, Any], None]]] = {
        c.CreateNode:      _node,
        c.ConfigureNode:   _node,
        c.DeleteNode:      _node,
        c.PurgeNode:       _bulk,
        c.SetAffiliation:  _affiliation,
        c.AddSubscription: _subscription,
        c.SetWindow:       _subscription,
        c.SetAvailable:    _subscription,
        c.EndSubscription: _subscription,
        c.NoteBounces:     _subscription,
        c.NoteResource:    _resource,
        c.ForgetResource:  _resource,
        c.AddItem:         _item,
        c.ReplacePayload:  _item,
        c.Lock:            _item,
        c.Release:         _item,
        c.Postpone:        _item,
        c.Extend:          _item,
        c.Revive:          _item,
        c.Ripen:           _item,
        c.GiveUp:          _item,
        c.RemoveItem:      _item,
        c.Forget:          _bulk,
        c.ForgetEvents:    _bulk,
        t.Stage:           _stage,
        t.Commit:          _bulk,
        t.Abort:           _bulk,
        t.Sweep:           _bulk,
    }
    # fmt: on


def _relocked(row: Subscription, by: int, token: int, *, reached: bool) -> Subscription:
    """Return the subscription with so many locks more; a retract shows that deliveries arrive."""
    return replace(
        row,
        in_flight=row.in_flight + by,
        last_served=max(row.last_served, token),
        bounces=0 if reached else row.bounces,
    )
