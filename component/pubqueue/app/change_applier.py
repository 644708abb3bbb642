"""Makes changes in the working set, and gathers what the store has to write: before -> after, by kind of row.

What a change makes of its row says `core.after`; everything else follows from the two: counters, receipts, the
groups a row is in, the queues to look at, the next moment at which something ends. A change of many rows at once
(a purge, a commit) is made by the store, after all that came before it is written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace

from pubqueue.app.counters import Counters
from pubqueue.app.crowd_windows import CROWD, CrowdWindows
from pubqueue.app.free_windows import FreeWindows
from pubqueue.app.listings import FreeSubscriptions
from pubqueue.app.numbers import Numbers
from pubqueue.app.pending import Pending
from pubqueue.app.ports import StaleError
from pubqueue.app.row_cache import ABSENT
from pubqueue.app.rows import (
    Finished,
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

    MovingChange = (
        c.ReplacePayload
        | c.Lock
        | c.Release
        | c.Postpone
        | c.Extend
        | c.Revive
        | c.Ripen
        | c.GiveUp
        | c.RemoveItem
    )

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
        self._pending = Pending()
        self._counters = Counters()

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
        self._pending = Pending()
        self._counters = Counters()
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

    def next_token(self) -> int:
        """Return the token of the next lock, 0 if that is not known."""
        return self._tokens.next

    # --- one request ---

    def make(self, asked: object, changes: Iterable[Change]) -> None:
        """Make the changes that the request `asked` makes (None: a dispatch), in order.

        Raises:
            StaleError: a change believes something else than is known.

        """
        for change in changes:
            self._MAKE[type(change)](self, asked, change)

    # --- items ---

    def _add(self, asked: object, change: c.AddItem) -> None:
        change = replace(change, seq=self._numbers.take(self._rows.tx))
        self._cache.payloads[change.seq] = change.draft.payload
        self._put_item(asked, change, None)

    def _replace(self, asked: object, change: c.ReplacePayload) -> None:
        seq = change.item.seq
        self._cache.payloads[seq] = change.payload
        self._pending.replaced[seq] = None
        self._item(asked, change)

    def _lock(self, asked: object, change: c.Lock) -> None:
        self._tokens.used(change.token)
        self._item(asked, change)

    def _give_up(self, asked: object, change: c.GiveUp) -> None:
        self._item(asked, replace(change, number=self._tokens.take(self._rows.tx)))

    def _remove(self, asked: object, change: c.RemoveItem) -> None:
        if change.absorb_until is not None:
            key = change.item.node, change.item.id
            self._pending.finished.setdefault(key, self._cache.finished.get(key))
            self._cache.finished[key] = Finished(*key, change.digest, change.absorb_until)
        self._item(asked, change)

    def _item(self, asked: object, change: MovingChange) -> None:
        before = change.item
        found = self._cache.numbered.get(before.seq, before)
        if found is not before and found != before:
            raise StaleError(f"item {before.seq} is not what was believed")
        self._put_item(asked, change, before)

    def _put_item(self, asked: object, change: ItemChange, before: Item | None) -> None:
        now = after(change)
        self._tell(asked, change, before, now)
        row = now or before
        assert row is not None
        self._pending.items.setdefault(row.seq, before)
        self._cache.numbered[row.seq] = now
        moves = before is None or now is None or before.node != now.node
        if before is not None:
            self._take_out(before, now, gone=moves)
        if now is not None:
            self._put_in(before, now, new=moves)
        if before is not None and now is not None:
            self._note_receipts(before, now)

    def _take_out(self, before: Item, now: Item | None, *, gone: bool) -> None:
        """Take an item out of the groups that it was in."""
        cache, node, seq = self._cache, before.node, before.seq
        if (ready := cache.ready.get(node)) is not None:
            ready.pop(seq, None)
        if gone:
            cache.items[node, before.id] = None
            cache.passing.append((node, before.id, seq))
            self._count(node, -1)
        held = before.holder
        if held is not None:
            if (group := cache.held.get(held)) is not None:
                group.pop(seq, None)
            if now is None or now.holder != held:
                self.touched[node] = None
                self._counters.lock(node, held, -1, reached=now is None)

    def _put_in(self, before: Item | None, now: Item, *, new: bool) -> None:
        """Put an item into the groups that it is in."""
        cache, node, seq = self._cache, now.node, now.seq
        cache.items[node, now.id] = now
        cache.passing.append((node, now.id, seq))
        if new:
            self._count(node, 1)
        if is_ready(now):
            cache.ready[node][seq] = now
            self.touched[node] = None
        holds = now.holder
        if holds is not None:
            if (group := cache.held.get(holds)) is not None:
                group[seq] = now
            if before is None or before.holder != holds:
                self._counters.lock(node, holds, 1, token=now.token)
        self._note_moment(now)

    def _note_moment(self, now: Item) -> None:
        moment = now.deadline if now.state is State.LOCKED else now.expires
        if now.state is State.DELAYED and now.due is not None:
            moment = now.due if moment is None else min(moment, now.due)
        if moment is not None and moment < self.soonest and now.state is not State.DEAD:
            self.soonest = moment

    def _note_receipts(self, before: Item, now: Item) -> None:
        if (loser := lost_by(before, now)) is not None:
            self._pending.receipts[before.seq, loser] = None
            if (group := self._cache.receipts.get(before.seq)) is not None:
                group[loser] = None
        elif begins_anew(before, now):
            self._forget_receipts(before.seq)

    def _forget_receipts(self, seq: int) -> None:
        pending = self._pending
        pending.anew[seq] = None
        self._cache.receipts[seq] = {}
        pending.receipts = {key: None for key in pending.receipts if key[0] != seq}

    # --- counters, which stand in rows that need not be known yet ---

    def _count(self, node: NodeName, by: int) -> None:
        """Count items of a node; at once where a bound is to be held, else with the others of the batch."""
        row = self._cache.nodes.get(node)
        if row is not None and row.config.max_items is not None:
            self._put_node(node, replace(row, items=row.items + by))
        else:
            self._counters.item(node, by)

    def resolve(self) -> None:
        """Put what is counted into its rows, loading those that are not known."""
        counters, cache = self._counters, self._cache
        if not counters:
            return
        if (needs := counters.needs(cache)) is not None:
            cache.fill(needs, self._rows.tx.load(needs))
        for node, counted in counters.take_nodes(cache):
            self._put_node(node.name, counted)
        for before, now in counters.take_subscriptions(cache):
            self._put_subscription(before, now)

    # --- nodes and those around them ---

    def _put_node(self, name: NodeName, now: Node | None) -> None:
        self._pending.nodes.setdefault(name, self._cache.nodes.get(name))
        self._cache.nodes[name] = now

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
            self.unsure = True  # what was in it is to be swept

    def _affiliation(self, _asked: object, change: c.SetAffiliation) -> None:
        key = change.node, change.jid
        before = self._rows.affiliation(*key)
        if self._rows.lacking:
            self._rows.load()
            before = self._rows.affiliation(*key)
        self._pending.affiliations.setdefault(key, before)
        self._cache.affiliations[key] = change.affiliation

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
            self._counters.forget_locks(node, jid)
            if (row := self._cache.nodes.get(node)) is not None:
                by = 1 if before is None else -1
                self._put_node(node, replace(row, subscriptions=row.subscriptions + by))

    def _put_subscription(self, before: Subscription | None, now: Subscription | None) -> None:
        row = now or before
        assert row is not None
        cache, node, jid = self._cache, row.node, row.jid
        account = account_of(jid)
        self._pending.subscriptions.setdefault((node, jid), before)
        if now is not None and now.unanswered:
            cache.silent[node, jid] = None
        else:
            cache.silent.pop((node, jid), None)
        everybody = cache.in_node.get(node)
        mine = cache.of_account.get((node, account))
        if everybody is not None and mine is None:
            mine = cache.of_account[node, account] = {}
        for group in (everybody, mine):
            if group is not None:
                _set(group, jid, now)
        if (everywhere := cache.everywhere.get(account)) is not None:
            _set(everywhere, (node, jid), now)
        if (of_jid := cache.of_jid.get(jid)) is not None:
            _set(of_jid, node, now)
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
        self._pending.resources.setdefault(change.jid, change.jid in group)
        if isinstance(change, c.NoteResource):
            group[change.jid] = None
        else:
            group.pop(change.jid, None)

    # --- what waits for a commit ---

    def _stage(self, _asked: object, change: t.Stage) -> None:
        mark, cache, pending = change.mark, self._cache, self._pending
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
            pending.staging.setdefault(place, before)
            getattr(cache, place[0])[place[1]] = now
        for row in change.rows:
            key = StagedKey(*attempt, change.node, row.draft.id)
            cache.staged[key] = row.size
            pending.staged.append(StagedRow(key, row))
            if mark.immediate:
                noted = NotedKey(mark.app, mark.version, change.node, row.draft.id)
                cache.noted[noted] = row.draft.payload, row.known
        self.soonest = min(self.soonest, change.until)

    # --- many rows at once ---

    def _bulk(self, asked: object, change: BulkChange) -> None:
        self.flush()
        self._tell(asked, change, None, None)
        self._write(change)
        self.unsure = True
        if isinstance(change, c.Forget):
            self._cache.finished.clear()
        elif isinstance(
            change, t.Sweep
        ):  # nobody sees what it removes, but for apps that nobody uses
            self._cache.apps.clear()
        elif not isinstance(change, c.ForgetEvents | t.Moved):
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
        moved = before is not None and now is not None and before.node != now.node
        if here is not None and not moved and not self._logs(here.node):
            return
        for entry in EVENTS[type(change)](asked, change, self.now):
            if self._logs(entry.node):
                self._pending.events.append(entry)

    # --- writing ---

    def flush(self) -> None:
        """Write what has gathered, so that what is read next shows it."""
        self.resolve()
        if not self._pending.is_empty():
            self._write()

    def _write(self, *bulk: Bulk) -> None:
        writes = self._pending.writes(self._cache, self.now)
        writes.bulk.extend(bulk)
        self._pending = Pending()
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
        c.NoteUnanswered:  _subscription,
        c.NoteResource:    _resource,
        c.ForgetResource:  _resource,
        c.AddItem:         _add,
        c.ReplacePayload:  _replace,
        c.Lock:            _lock,
        c.Release:         _item,
        c.Postpone:        _item,
        c.Extend:          _item,
        c.Revive:          _item,
        c.Ripen:           _item,
        c.GiveUp:          _give_up,
        c.RemoveItem:      _remove,
        c.Forget:          _bulk,
        c.ForgetEvents:    _bulk,
        t.Stage:           _stage,
        t.SetAside:        _bulk,
        t.Commit:          _bulk,
        t.Moved:           _bulk,
        t.Abort:           _bulk,
        t.Sweep:           _bulk,
    }
    # fmt: on


def _set(group: dict[Any, Subscription], key: object, row: Subscription | None) -> None:
    if row is None:
        group.pop(key, None)
    else:
        group[key] = row
