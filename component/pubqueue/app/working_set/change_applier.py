"""Makes changes in the working set, and collects what the store has to write: before -> after, by kind of row.

`core.after` defines the row after a change. Everything else follows from before and after: counters, receipts, the
groups a row is in, the queues to look at, the next time at which something ends. The store itself makes changes of
many rows (a purge, a commit), after all earlier changes are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from pubqueue.app.store.ports import StaleError
from pubqueue.app.store.rows import (
    AFFILIATIONS,
    ANSWERED,
    APPS,
    ATTEMPTS,
    FINISHED,
    HOLDINGS,
    KEY_TOTALS,
    KIND_OF,
    NOTED,
    PING_ANSWERS,
    SETTLED,
    STAGED,
    USED_KEYS,
    VERSIONS,
    WAITING,
    AffiliationRow,
    NotedKey,
    NotedRow,
    StagedKey,
    StagedRow,
    StagedSize,
)
from pubqueue.app.working_set.item_changes import ItemChanges
from pubqueue.app.working_set.row_cache import ABSENT
from pubqueue.model import changes as c
from pubqueue.model import changes as s
from pubqueue.model import transactions as t
from pubqueue.model.after import has_room, node_after, staged, subscription_after
from pubqueue.model.entities import Affiliation, account_of
from pubqueue.model.schedules import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.store.kinds import K, Row, RowKind
    from pubqueue.app.store.rows import BulkChange
    from pubqueue.model.changes import Change, SubscriptionChange
    from pubqueue.model.entities import Node


_OF_PEOPLE = c.DropFormer | s.BeginReview | s.EndReview
_UNKNOWN = c.ForgetEvents | c.NoteSamples | _OF_PEOPLE | c.BeginTrim | c.EndTrim | t.Moved
"""Bulk changes of rows that are not kept between batches."""


class ChangeApplier(ItemChanges):
    """Makes all changes of the working set."""

    def make(self, asked: object, changes: Iterable[Change]) -> None:
        """Make the changes that the request `asked` makes (None: a dispatch), in order.

        Raises:
            StaleError: a change was decided on other facts than the working set has.

        """
        for change in changes:
            self.MAKE[type(change)](self, asked, change)

    def _node(self, asked: object, change: c.CreateNode | c.ConfigureNode | c.DeleteNode) -> None:
        name = change.node.name if isinstance(change, c.CreateNode) else change.node
        if self.touched and name not in self._cache.nodes:  # another was deleted before it
            self._rows.needs.nodes.add(name)
            self._rows.load()
        before = self._cache.nodes.get(name)
        if (before is None) != isinstance(change, c.CreateNode):
            raise StaleError("node", name)
        self._note_event(asked, change)
        now = node_after(change, before)
        if isinstance(change, c.DeleteNode):
            self.flush()
        self._put_node(name, now)
        self._pay(before, now)
        self.touched[name] = None
        if isinstance(change, c.DeleteNode):
            if change.announce:
                self._pending.announce.append(name)
            if change.uri:
                self._pending.moved[name] = change.uri
            self._write()
            self._cache.forget()
            self.unsure = True  # its contents have to be swept

    def _pay(self, before: Node | None, now: Node | None) -> None:
        """Note the account of a new node; if a node changes its account, the store has to sum up again."""
        if before is None and now is not None:
            self._hold(now.creator, 1, 0, 0)
        elif before is not None and now is not None and before.creator != now.creator:
            self._cache.of[HOLDINGS].pop(before.creator, None)
            self._cache.of[HOLDINGS].pop(now.creator, None)

    def _affiliation(self, _asked: object, change: c.SetAffiliation) -> None:
        key, affiliation = (change.node, change.jid), change.affiliation
        now = None if affiliation is Affiliation.NONE else AffiliationRow(*key, affiliation)
        self.put(AFFILIATIONS, key, now)
        self._cache.rights.clear()

    def put(self, kind: RowKind[K, Row], key: K, now: Row | None) -> None:
        """Replace the row of the key, which is loaded if it is not known; None removes it."""
        rows = self._cache.of[kind]
        if key not in rows:
            self._rows.needs.of[kind].add(key)
            self._rows.load()
        self._pending.of[kind].setdefault(key, rows[key])
        rows[key] = now

    def _subscription(self, _asked: object, change: SubscriptionChange) -> None:
        added = change.subscription if isinstance(change, s.AddSubscription) else None
        node = change.subscription.node if isinstance(change, s.AddSubscription) else change.node
        jid = change.subscription.jid if isinstance(change, s.AddSubscription) else change.jid
        before = self._cache.subscription(node, jid)
        if before is ABSENT:
            self._rows.needs.subscriptions.add((node, account_of(jid)))
            self._rows.load()
            before = self._cache.subscription(node, jid)
        if (before is None) != (added is not None):
            raise StaleError("subscription", (node, jid))
        now = subscription_after(change, before)
        self._put_subscription(before, now)
        if isinstance(change, s.NoteUnanswered) and change.until is not None:
            self._hold_back(node, jid, change.until)
        elif now is None or not now.unanswered:
            self._hold_back_no_more(node, jid)
        if now is not None and now.ends_next is not None:
            self.soonest = min(self.soonest, now.ends_next)
        if now is None or has_room(now):
            self.touched[node] = None
        if (before is None) != (now is None):
            # the counts so far do not apply to a later subscription of this JID, which counts its own locks
            self._counters.forget_locks(node, jid)
            if (row := self._cache.nodes.get(node)) is not None:
                by = 1 if before is None else -1
                self._put_node(node, replace(row, subscriptions=row.subscriptions + by))

    def _call_groups(self, _asked: object, change: c.CallGroups) -> None:
        self.groups.update(dict.fromkeys((change.node, group) for group in change.groups))

    def _recount(self, _asked: object, change: s.Recount) -> None:
        if (windows := self._cache.windows.get(change.node)) is not None:
            windows.recount(change.jid)
        self.touched[change.node] = None

    def _open_window(self, _asked: object, change: c.OpenWindow) -> None:
        self.takes.open(change)
        self.touched[change.node] = None

    def _spend(self, _asked: object, change: c.SpendRate) -> None:
        if (row := self._cache.nodes.get(change.node)) is not None:
            self._put_node(change.node, replace(row, spent=change.spent))

    def _put_row(self, _asked: object, change: c.PutRow) -> None:
        row, kind = change.row, KIND_OF[type(change.row)]
        self.put(kind, kind.key_of(row), row)
        if isinstance(row, Schedule) and row.due is not None:
            self.soonest = min(self.soonest, row.due)

    def _drop_row(self, _asked: object, change: c.DropRow) -> None:
        self.put(KIND_OF[change.kind], change.key, None)

    def _resource(self, _asked: object, change: c.NoteResource | c.ForgetResource) -> None:
        group = self._cache.resources.get(account_of(change.jid), {})
        self._pending.resources.setdefault(change.jid, change.jid in group)
        if isinstance(change, c.NoteResource):
            group.setdefault(change.jid, 0)
        else:
            group.pop(change.jid, None)
            self._cache.able.pop(change.jid, None)
            self._pending.active.pop(change.jid, None)
            self._pending.able.pop(change.jid, None)

    def _able(self, _asked: object, change: c.NoteAble) -> None:
        if change.jid in self._cache.resources.get(account_of(change.jid), {}):
            self._cache.able[change.jid] = self._pending.able[change.jid] = change.able

    def _note_activity(self, _asked: object, change: c.NoteActivity) -> None:
        """Note the lock token after which the JID sent something; if no lock was given since then, that is known already."""
        group = self._cache.resources.get(account_of(change.jid), {})
        since = self._tokens.first(self._rows.tx, 1)
        if group.get(change.jid, since) < since:
            group[change.jid] = since
            self._pending.active[change.jid] = since

    def _stage(self, _asked: object, change: t.Stage) -> None:
        mark, cache, pending = change.mark, self._cache, self._pending
        attempt = mark.app, mark.version, mark.part, mark.attempt
        places: tuple[tuple[RowKind[Any, Any], object], ...] = (
            (APPS, mark.app),
            (VERSIONS, (mark.app, mark.version)),
            (ATTEMPTS, attempt),
            (WAITING, change.owner),
            (WAITING, ""),
        )
        befores = [cache.of[kind].get(key) for kind, key in places]
        afters = staged(change, *befores)
        for (kind, place), before, now in zip(places, befores, afters, strict=True):
            pending.of[kind].setdefault(place, before)
            cache.of[kind][place] = now
        for row in change.rows:
            key = StagedKey(*attempt, change.node, row.draft.id)
            cache.of[STAGED][key] = StagedSize(key, row.size)
            pending.staged.append(StagedRow(key, row))
            if mark.immediate:
                noted = NotedKey(mark.app, mark.version, change.node, row.draft.id)
                cache.of[NOTED][noted] = NotedRow(noted, row.draft.payload, row.known)
        self.soonest = min(self.soonest, change.until)

    def _bulk(self, asked: object, change: BulkChange) -> None:
        self.flush()
        self._note_event(asked, change)
        self._write(change)
        self.unsure = True
        if isinstance(change, c.Forget):
            self._cache.of[FINISHED].clear()
            self._cache.of[SETTLED].clear()
            self._cache.of[USED_KEYS].clear()
            self._cache.of[PING_ANSWERS].clear()
            self._cache.of[ANSWERED].clear()
            self._cache.of[KEY_TOTALS].clear()
        elif isinstance(change, t.Sweep):  # it removes only unused apps, which no request reads
            self._cache.of[APPS].clear()
        elif not isinstance(change, _UNKNOWN):
            self._cache.forget()
        if isinstance(change, c.PurgeNode) and change.leaves is not None:
            self._rows.node(change.node)  # it was forgotten
            self._rows.load()
            self._add(asked, change.leaves)
        if isinstance(change, t.Commit):
            self._numbers.forget()  # its items have numbers after the block
            self.touched.update(dict.fromkeys(committed.node for committed in change.nodes))

    def _end_many(self, asked: object, change: s.EndSubscriptions) -> None:
        """End subscriptions in the store: of a crowd hardly any is loaded."""
        self.flush()
        row = self._cache.nodes.get(change.node)
        if row is None:
            raise StaleError("node", change.node)
        self._cache.forget_subscribers(change.node, change.jids)
        self._put_node(
            change.node, replace(row, subscriptions=row.subscriptions - len(change.jids))
        )
        self._note_event(asked, change)
        self._write(change)
        self.touched[change.node] = None

    # fmt: off
    _BULK: ClassVar[dict[type, Callable[[Any, object, Any], None]]] = dict.fromkeys((
        c.PurgeNode, c.DropFormer, s.BeginReview, s.EndReview, c.BeginTrim, c.EndTrim, c.Forget,
        c.ForgetEvents, c.NoteSamples, t.SetAside, t.Commit, t.Moved, t.Abort, t.Sweep,
    ), _bulk)

    MAKE: ClassVar[dict[type, Callable[[Any, object, Any], None]]] = {
        c.CreateNode:      _node,
        c.ConfigureNode:   _node,
        c.DeleteNode:      _node,
        s.EndSubscriptions: _end_many,
        c.SetAffiliation:  _affiliation,
        s.AddSubscription: _subscription,
        s.AddAnother:      _subscription,
        s.SetWindow:       _subscription,
        s.SetLockTimeout:  _subscription,
        s.SetLevel:        _subscription,
        s.SetTerms:        _subscription,
        s.Approve:         _subscription,
        s.SetAvailable:    _subscription,
        s.EndSubscription: _subscription,
        s.NoteUnanswered:  _subscription,
        c.NoteResource:    _resource,
        c.NoteActivity:    _note_activity,
        c.NoteAble:        _able,
        c.ForgetResource:  _resource,
        **ItemChanges.OF_ITEMS,
        **_BULK,
        c.CallGroups:      _call_groups,
        c.SpendRate:       _spend,
        c.PutRow:          _put_row,
        c.DropRow:         _drop_row,
        s.Recount:         _recount,
        c.OpenWindow:      _open_window,
        t.Stage:           _stage,
    }
    # fmt: on

    AT_ONCE: ClassVar = frozenset({*_BULK, c.DeleteNode, s.EndSubscriptions})
    """Changes that are written at once, after all earlier ones."""
