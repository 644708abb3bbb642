"""Makes changes in the working set, and gathers what the store has to write: before -> after, by kind of row.

What a change makes of its row says `core.after`; everything else follows from the two: counters, receipts, the
groups a row is in, the queues to look at, the next moment at which something ends. A change of many rows at once
(a purge, a commit) is made by the store, after all that came before it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from pubqueue.app.store.ports import StaleError
from pubqueue.app.store.rows import (
    AFFILIATIONS,
    APPS,
    ATTEMPTS,
    FINISHED,
    HOLDINGS,
    NOTED,
    SCHEDULES,
    STAGED,
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
from pubqueue.core import changes as c
from pubqueue.core.addresses import account_of
from pubqueue.core.after import (
    has_room,
    node_after,
    staged,
    subscription_after,
)
from pubqueue.core.model import Affiliation
from pubqueue.core.schedules import model as s
from pubqueue.core.transactions import model as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.store.kinds import K, Row, RowKind
    from pubqueue.app.store.rows import BulkChange
    from pubqueue.core.changes import Change, SubscriptionChange
    from pubqueue.core.model import Node


_OF_PEOPLE = c.DropFormer | c.BeginReview | c.EndReview
_UNKNOWN = c.ForgetEvents | c.NoteSamples | _OF_PEOPLE | c.BeginTrim | c.EndTrim | t.Moved
"""Bulk changes of rows that are not kept between batches."""


class ChangeApplier(ItemChanges):
    """What a process does to its working set."""

    def make(self, asked: object, changes: Iterable[Change]) -> None:
        """Make the changes that the request `asked` makes (None: a dispatch), in order.

        Raises:
            StaleError: a change believes something else than is known.

        """
        for change in changes:
            self._MAKE[type(change)](self, asked, change)

    def _node(self, asked: object, change: c.CreateNode | c.ConfigureNode | c.DeleteNode) -> None:
        name = change.node.name if isinstance(change, c.CreateNode) else change.node
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
            self.unsure = True  # what was in it is to be swept

    def _pay(self, before: Node | None, now: Node | None) -> None:
        """Note whose a new node is; where one is another account's since, the store has to add up anew."""
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
        """Put a row in the place of that of the key, which is loaded if it is not known; None if there is to be none."""
        rows = self._cache.of[kind]
        if key not in rows:
            self._rows.needs.of[kind].add(key)
            self._rows.load()
        self._pending.of[kind].setdefault(key, rows[key])
        rows[key] = now

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
            raise StaleError("subscription", (node, jid))
        now = subscription_after(change, before)
        self._put_subscription(before, now)
        if isinstance(change, c.NoteUnanswered) and change.until is not None:
            self._hold_back(node, jid, change.until)
        elif now is None or not now.unanswered:
            self._hold_back_no_more(node, jid)
        if now is not None and now.ends_next is not None:
            self.soonest = min(self.soonest, now.ends_next)
        if now is None or has_room(now):
            self.touched[node] = None
        if (before is None) != (now is None):
            # what is counted so far is not about a later subscription of this JID, which knows what it holds
            self._counters.forget_locks(node, jid)
            if (row := self._cache.nodes.get(node)) is not None:
                by = 1 if before is None else -1
                self._put_node(node, replace(row, subscriptions=row.subscriptions + by))

    def _call_groups(self, _asked: object, change: c.CallGroups) -> None:
        self.groups.update(dict.fromkeys((change.node, group) for group in change.groups))

    def _recount(self, _asked: object, change: c.Recount) -> None:
        if (windows := self._cache.windows.get(change.node)) is not None:
            windows.recount(change.jid)
        self.touched[change.node] = None

    def _spend(self, _asked: object, change: c.SpendRate) -> None:
        if (row := self._cache.nodes.get(change.node)) is not None:
            self._put_node(change.node, replace(row, spent=change.spent))

    def _resource(self, _asked: object, change: c.NoteResource | c.ForgetResource) -> None:
        group = self._cache.resources.get(account_of(change.jid), {})
        self._pending.resources.setdefault(change.jid, change.jid in group)
        if isinstance(change, c.NoteResource):
            group.setdefault(change.jid, 0)
        else:
            group.pop(change.jid, None)
            self._pending.heard.pop(change.jid, None)

    def _heard(self, _asked: object, change: c.HearOf) -> None:
        """Note behind which locks the JID has shown itself; where none was given since, that is known already."""
        group = self._cache.resources.get(account_of(change.jid), {})
        since = self._tokens.first(self._rows.tx, 1)
        if group.get(change.jid, since) < since:
            group[change.jid] = since
            self._pending.heard[change.jid] = since

    def _schedule(self, _asked: object, change: s.PutSchedule | s.DropSchedule) -> None:
        now = change.schedule if isinstance(change, s.PutSchedule) else None
        name = change.name if isinstance(change, s.DropSchedule) else change.schedule.name
        self.put(SCHEDULES, name, now)
        if now is not None and now.due is not None:
            self.soonest = min(self.soonest, now.due)

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
        elif isinstance(
            change, t.Sweep
        ):  # nobody sees what it removes, but for apps that nobody uses
            self._cache.of[APPS].clear()
        elif not isinstance(change, _UNKNOWN):
            self._cache.forget()
        if isinstance(change, t.Commit):
            self._numbers.forget()  # its items are numbered behind the block
            self.touched.update(dict.fromkeys(committed.node for committed in change.nodes))

    def _end_many(self, asked: object, change: c.EndSubscriptions) -> None:
        """End subscriptions where they are: of a crowd hardly any is known here."""
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
        c.PurgeNode, c.DropFormer, c.BeginReview, c.EndReview, c.BeginTrim, c.EndTrim, c.Forget,
        c.ForgetEvents, c.NoteSamples, t.SetAside, t.Commit, t.Moved, t.Abort, t.Sweep,
    ), _bulk)

    _MAKE: ClassVar[dict[type, Callable[[Any, object, Any], None]]] = {
        c.CreateNode:      _node,
        c.ConfigureNode:   _node,
        c.DeleteNode:      _node,
        c.EndSubscriptions: _end_many,
        c.SetAffiliation:  _affiliation,
        c.AddSubscription: _subscription,
        c.AddAnother:      _subscription,
        c.SetWindow:       _subscription,
        c.SetTerms:        _subscription,
        c.Approve:         _subscription,
        c.SetAvailable:    _subscription,
        c.EndSubscription: _subscription,
        c.NoteUnanswered:  _subscription,
        c.NoteResource:    _resource,
        c.HearOf:          _heard,
        c.ForgetResource:  _resource,
        **ItemChanges.OF_ITEMS,
        **_BULK,
        c.CallGroups:      _call_groups,
        c.SpendRate:       _spend,
        c.Recount:         _recount,
        s.PutSchedule:     _schedule,
        s.DropSchedule:    _schedule,
        t.Stage:           _stage,
    }
    # fmt: on

    AT_ONCE: ClassVar = frozenset({*_BULK, c.DeleteNode, c.EndSubscriptions})
    """Changes that are written at once, behind all that was done before them."""
