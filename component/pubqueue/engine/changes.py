"""Makes the changes of a batch in the working set."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace

from pubqueue.engine.listings import FreeSubscriptions, HeldOf
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import (
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
    Finished,
    NotedKey,
    NotedRow,
    Sign,
    StagedKey,
    StagedRow,
    StagedSize,
)
from pubqueue.engine.shares import Shares
from pubqueue.engine.windows import (
    CROWD,
    CrowdWindows,
    FreeWindows,
    HeldBack,
    OpenWindows,
    RateWaits,
    WaitsForRoom,
)
from pubqueue.engine.writes import ABSENT
from pubqueue.model import changes
from pubqueue.model import transactions as t
from pubqueue.model.after import (
    after,
    begins_anew,
    has_room,
    in_queue,
    is_ready,
    lost_by,
    node_after,
    staged,
    subscription_after,
)
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Affiliation, Fair, Millis, State, account_of
from pubqueue.model.joins import NOTHING
from pubqueue.model.schedules import Schedule
from pubqueue.rules.dispatch import in_line, keep_their_places
from pubqueue.rules.event_log import EVENTS
from pubqueue.rules.joins import passed, swept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.engine.rows import BulkChange, K, Row, RowKind
    from pubqueue.engine.windows import Takers
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.engine.writes import PendingWrites
    from pubqueue.model.changes import Change, ItemChange, SubscriptionChange
    from pubqueue.model.entities import Item, Jid, Node, NodeName
    from pubqueue.model.joins import Tally
    from pubqueue.rules.dispatch import TakeWindow

    Group = tuple[NodeName, str]
    MovingChange = (
        changes.ReplacePayload
        | changes.Lock
        | changes.Release
        | changes.Hold
        | changes.TakeSignal
        | changes.Wake
        | changes.Count
        | changes.CloseJoin
        | changes.Postpone
        | changes.Extend
        | changes.SetLife
        | changes.SetTimes
        | changes.Revive
        | changes.Ripen
        | changes.TakeTurn
        | changes.GiveUp
        | changes.RemoveItem
    )


# `model.after` defines the row after a change. Everything else follows from before and after: counters, receipts, the
# groups a row is in, the queues to look at, the next time at which something ends. What the store has to write is collected
# in `PendingWrites`, which the working set writes before a read that has to show it, and at the end of the batch.

NEVER: Final = Millis(1 << 62)

ENOUGH: Final = 1000
"""Room up to which the windows of takes are counted: no batch delivers more."""


_UNTIL_DUE: Final = frozenset({State.DELAYED, State.HELD})

_OF_PEOPLE = changes.DropFormer | changes.BeginReview | changes.EndReview
_UNKNOWN = (
    changes.ForgetEvents
    | changes.NoteSamples
    | _OF_PEOPLE
    | changes.BeginTrim
    | changes.EndTrim
    | t.Moved
)
"""Bulk changes of rows that are not kept between batches."""


class ChangeApplier:
    """Makes the changes of a batch. `touched` are the nodes to deliver items of.

    They are collected in `pending`: the changes of the working set, unless others are given.
    """

    def __init__(
        self,
        rows: WorkingSet,
        reaches: Callable[[Jid], bool],
        takers: Takers = frozenset(),
        pending: PendingWrites | None = None,
    ) -> None:
        self._rows = rows
        self._reaches = reaches
        self._pending = rows.pending if pending is None else pending
        self._cache = self._pending.cache
        self.now = Millis(0)
        self.touched: dict[NodeName, None] = {}
        self.soonest = NEVER
        """The next time at which something that this batch has changed ends."""
        self.unsure = True
        """Whether something may end sooner than this process knows."""
        self._forgot = False
        self.groups: dict[Group, None] = {}
        """Groups whose turn may have come."""
        self._had_turns: set[Group] = set()
        """Groups in which turns have begun in this batch."""
        self.waits = RateWaits()
        self.held_back = HeldBack()
        self.takes = OpenWindows(takers)
        self.waits_for_room = WaitsForRoom()
        self.shares = Shares(self._cache)
        self.joined: dict[int, Tally] = {}
        """Joins to look at, by number, with what this batch has done to their members and not counted yet."""
        self.recalled: list[Item] = []
        """Items of which this batch has ended the locks because of earlier items of their groups (`rules.ahead`)."""

    def begin(self, now: Millis, *, foreign: bool) -> None:
        """Begin a batch."""
        self.now = now
        self._pending.begin(now, foreign=foreign)
        self.touched = {}
        self.groups = {}
        self._had_turns = set()
        self.waits.begin()
        self.takes.begin()
        self.waits_for_room.begin()
        if self.shares.of:
            self.shares.begin(now)
        self.recalled = []
        self.joined = {}
        self.soonest = NEVER
        self.unsure = foreign or self._forgot
        self._forgot = False

    def forget(self) -> None:
        """Forget everything: the transaction was rolled back, and with it the reserved numbers."""
        self._cache.forget()
        self._forgot = True
        self.waits.undo()
        self.held_back.undo()
        self.takes.undo()
        self.waits_for_room.undo()
        self.shares.undo()
        self._pending.forget()

    def make(self, asked: object, changes: Iterable[Change]) -> None:
        """Make the changes that the request `asked` makes (None: a dispatch), in order.

        Raises:
            StaleError: a change was decided on other facts than the working set has.

        """
        for change in changes:
            self.MAKE[type(change)](self, asked, change)

    def has_changed(self, seq: int) -> bool:
        """Return whether this batch has changed the item and not written it yet."""
        return seq in self._pending.items

    def changed_items(self) -> Iterable[tuple[Item | None, Item | None]]:
        """Return the items that this batch has changed and not written yet, each before and after."""
        numbered = self._cache.numbered
        return ((before, numbered.get(seq)) for seq, before in self._pending.items.items())

    def begin_turns(self, group: Group, items: Sequence[Item]) -> None:
        """Let the turns of items of a group begin, in this order."""
        first = 0 if group in self._had_turns else self._pending.numbers.first_of_batch
        kept = keep_their_places(items, first)
        for at, item in enumerate(items):
            self._had_turns.add(group)
            turn = item.seq if at < kept else self._pending.numbers.take(self._rows.tx)
            self.make(None, [changes.TakeTurn(item, turn)])

    def soonest_or_none(self) -> Millis | None:
        """Return the next time at which something that this batch has changed ends; None if nothing does."""
        return None if self.soonest == NEVER else self.soonest

    def tokens(self, count: int) -> int:
        """Return the first of `count` consecutive lock tokens; a lock takes each that is used."""
        return self._pending.tokens.first(self._rows.tx, count)

    # --- who may get items ---

    def windows(self, node: NodeName) -> FreeWindows | CrowdWindows | None:
        """Return the free windows of the node's subscribers, None if the subscribers have to be loaded first."""
        found = self._cache.windows.get(node)
        if found is not None:
            return found
        reaches = self._reaches
        if self.held_back.anybody_of(node):
            reaches = partial(self._may_have, node)
        if (everybody := self._cache.in_node.get(node)) is not None:
            found = self._cache.windows[node] = FreeWindows(everybody, reaches)
        elif (row := self._cache.nodes.get(node)) is not None and row.subscriptions > CROWD:
            page = partial(self._rows.page_now, FreeSubscriptions(node))
            found = self._cache.windows[node] = CrowdWindows(page, reaches)
        return found

    def room_of_takes(self, node: Node) -> int:
        """Return how many items could go to waiting takes, counted up to `ENOUGH`."""
        return self.takes.room(node, self._cache.held_of, ENOUGH)

    def room_of(self, node: Node, jid: Jid) -> int:
        """Return how many items could be sent ahead to this address; the subscription and what the account holds have to be loaded."""
        row = self._cache.subscription(node.name, jid)
        reaches = self._may_have if self.held_back.anybody_of(node.name) else None
        is_there = reaches(node.name, jid) if reaches else self._reaches(jid)
        is_free = row is not ABSENT and has_room(row) and is_there
        room = row.queue_requests - row.in_flight if is_free else 0
        return room + (self.takes.room_of(node, jid, self._cache.held_of) if self.takes else 0)

    def take_line(self, node: Node, count: int) -> list[TakeWindow]:
        """Return the windows of waiting takes. `load_takers` has to be called before."""
        return self.takes.line(node, self._cache.held_of, count, self._rows.affiliation)

    def load_takers(self, names: Iterable[NodeName]) -> None:
        """Load affiliations and held items of accounts with takes on these nodes; end takes that may no longer wait."""
        names, rows = tuple(names), self._rows
        held_of = self._cache.held_of
        unknown = tuple(key for key in self.takes.keys(names) if key not in held_of)
        if unknown:
            for node, account in unknown:
                rows.affiliation(node, account)
            if rows.lacking:
                rows.load()
            counts = rows.page_now(HeldOf(unknown), None, len(unknown))
            held_of.update(zip(unknown, counts, strict=True))
        for name in names:
            row = rows.node(name)
            if row is None or not row.config.queueing:
                gone = Refusal.NODE_NOT_FOUND if row is None else Refusal.NOT_A_QUEUE
                self.takes.end_all(name, gone)

    def _may_have(self, node: NodeName, jid: Jid) -> bool:
        return not self.held_back.holds(node, jid) and self._reaches(jid)

    def _hold_back(self, node: NodeName, jid: Jid, until: Millis) -> None:
        """Deliver nothing to the subscriber until then."""
        self.held_back.set(node, jid, until)
        self._cache.windows.pop(node, None)  # they count its room
        self.soonest = min(self.soonest, until)

    def _hold_back_no_more(self, node: NodeName, jid: Jid) -> None:
        if self.held_back.end(node, jid):
            self._cache.windows.pop(node, None)
            self.touched[node] = None

    def no_longer_held_back(self) -> Iterable[NodeName]:
        """Return the nodes of subscribers whose time is over: they can get deliveries again."""
        nodes = self.held_back.over(self.now)
        for node in nodes:
            self._cache.windows.pop(node, None)
        return nodes

    # --- the event log ---

    def _logs(self, name: NodeName) -> bool:
        nodes = self._cache.nodes
        if name not in nodes:
            self._rows.needs.nodes.add(name)
            self._rows.load()
        row = nodes[name]
        return row is not None and row.config.event_log

    def _note_event(self, asked: object, change: Change) -> None:
        """Add the entries of the change to the event logs of its nodes."""
        for entry in EVENTS[type(change)](asked, change, self.now):
            if self._logs(entry.node):
                self._pending.events.append(entry)

    # Items: their rows, the groups they are in, and what depends on them.

    def _add(self, asked: object, change: changes.AddItem) -> None:
        if not change.seq:
            change = replace(change, seq=self._pending.numbers.take(self._rows.tx))
        self._cache.payloads[change.seq] = change.draft.payload
        if change.instead:
            chain = self._pending.overwritten
            first = chain.pop(change.instead, (change.node, change.instead))
            chain[change.seq] = first
        self._put_item(asked, change, None)

    def _replace(self, asked: object, change: changes.ReplacePayload) -> None:
        seq = change.item.seq
        self._cache.payloads[seq] = change.payload
        self._pending.replaced[seq] = None
        self._item(asked, change)

    def _lock(self, asked: object, change: changes.Lock) -> None:
        self._pending.tokens.used(change.token)
        self._item(asked, change)

    def _give_up(self, asked: object, change: changes.GiveUp) -> None:
        if not change.number:
            change = replace(change, number=self._pending.tokens.take(self._rows.tx))
        self.touched[change.item.node] = (
            None  # one that could not be delivered may have been in the way
        )
        self._item(asked, change)
        for copy in change.copies:
            self._add(asked, copy)
        for missed in () if change.onward is None else change.onward.left_out:
            self._node(asked, missed)

    def _remove(self, asked: object, change: changes.RemoveItem) -> None:
        if change.absorb_until is not None:
            key = change.item.node, change.item.id
            finished = self._cache.of[FINISHED]
            self._pending.of[FINISHED].setdefault(key, finished.get(key))
            finished[key] = Finished(*key, change.digest, change.absorb_until)
        if not change.item.acquired:  # an item that was delivered is not of a plain node
            node = self._cache.nodes.get(change.item.node)
            seq, pending = change.item.seq, self._pending
            is_stored = seq not in pending.items or pending.items[seq] is not None
            if (is_stored or seq in pending.overwritten) and node and not node.config.queueing:
                pending.placeless.append(seq)
        self._item(asked, change)

    def _item(self, asked: object, change: MovingChange) -> None:
        before = change.item
        numbered, seq = self._cache.numbered, before.seq
        if seq in numbered and numbered[seq] is not before and numbered[seq] != before:
            raise StaleError("item", seq)
        self._put_item(asked, change, before)

    def _put_item(self, asked: object, change: ItemChange, before: Item | None) -> None:
        now = after(change)
        row = now or before
        assert row is not None
        if self._logs(row.node) or (before is not None and before.node != row.node):
            self._note_event(asked, change)
        if row.group:
            self._call_group(before, now)
        if row.wait is not None or (before or row).joins:
            self._note_joins(change, before, now)
        if row.seq not in self._pending.items:
            self._pending.items[row.seq] = before
        self._cache.numbered[row.seq] = now
        if (now is not None and now.state is State.DONE) or (
            before is not None and before.state is State.DONE
        ):
            self._move_done(before, now)
            before, now = in_queue(before), in_queue(now)
        moves = before is None or now is None or before.node != now.node
        if before is not None:
            self._take_out(before, now, gone=moves)
        if now is not None:
            self._put_in(before, now, new=moves)
        if before is not None and now is not None and before.size != now.size and not moves:
            self._pending.count(now.node, 0, now.size - before.size)
        if before is not None and now is not None and before.acquired:
            self._note_receipts(before, now)

    def _note_joins(self, change: ItemChange, before: Item | None, now: Item | None) -> None:
        """Note what the change of a member is to its join, and a join that may be complete."""
        member = before or now
        if member is not None and member.joins > 0:
            self._tally(member.joins, passed(before, now))
        is_held = now is not None and now.state is State.HELD and type(change) is not changes.Count
        if now is not None and is_held and now.wait is not None and now.wait.join is not None:
            self._tally(now.seq, NOTHING)

    def _tally(self, join: int, what: Tally) -> None:
        self.joined[join] = self.joined.get(join, NOTHING) + what

    def _move_done(self, before: Item | None, now: Item | None) -> None:
        """Count an item that is done, or is no longer."""
        for item, by in ((before, -1), (now, 1)):
            if item is not None and item.state is State.DONE:
                self._pending.count_done(item.node, by, by * item.size)
                self._cache.passing[item.node, item.id, item.seq] = None

    def _call_group(self, before: Item | None, now: Item | None) -> None:
        """Note a group whose item with the turn has left it, one that an item now waits in, and one whose next items depend on the state."""
        if before is not None and before.turn and (now is None or not now.turn):
            self.groups[before.node, before.group] = None
        if now is not None and in_line(now):
            self.groups[now.node, now.group] = None
        if before is not None and now is not None and before.turn and before.state != now.state:
            node = self._cache.nodes.get(now.node)
            if node is not None and node.config.group_ahead:
                self.groups[now.node, now.group] = None

    def _take_out(self, before: Item, now: Item | None, *, gone: bool) -> None:
        """Take an item out of the groups that it was in."""
        cache, node, seq = self._cache, before.node, before.seq
        if node in cache.ready:
            cache.ready[node].pop(seq, None)
        if gone:
            cache.items[node, before.id] = None
            if node in cache.whole:
                cache.whole[node].pop(seq, None)
            cache.passing[node, before.id, seq] = None
            self._pending.count(node, -1, -before.size)
        held = before.holder
        if held is not None:
            if held in cache.held:
                cache.held[held].pop(seq, None)
            if now is None or now.holder != held:
                self.touched[node] = None
                self._pending.counters.lock(node, held, -1, reached=now is None)
                if self.shares.of:
                    self.shares.ended(before)
                if cache.held_of:
                    self._count_held(node, held, -1)

    def _put_in(self, before: Item | None, now: Item, *, new: bool) -> None:
        """Put an item into the groups that it is in."""
        cache, node, seq = self._cache, now.node, now.seq
        cache.items[node, now.id] = now
        if node in cache.whole:
            cache.whole[node][seq] = now
        cache.passing[node, now.id, seq] = None
        if new:
            self._pending.count(node, 1, now.size)
        if is_ready(now):
            cache.ready[node][seq] = now
            self.touched[node] = None
        holds = now.holder
        if holds is not None:
            if holds in cache.held:
                cache.held[holds][seq] = now
            if before is None or before.holder != holds:
                self._pending.counters.lock(node, holds, 1, token=now.token)
                if cache.held_of:
                    self._count_held(node, holds, 1)
        if self.shares.of:
            self.shares.put(before, now)
        self._note_moment(now)

    def _count_held(self, node: NodeName, holder: Jid, by: int) -> None:
        """Update how many items an account with takes holds."""
        key, held_of = (node, account_of(holder)), self._cache.held_of
        if key in held_of:
            held_of[key] += by

    def _note_moment(self, now: Item) -> None:
        moment = now.deadline if now.state is State.LOCKED else now.expires
        if now.state in _UNTIL_DUE and now.due is not None:
            moment = now.due if moment is None else min(moment, now.due)
        if moment is not None and moment < self.soonest and now.state is not State.DEAD:
            self.soonest = moment

    def _note_receipts(self, before: Item, now: Item) -> None:
        if (loser := lost_by(before, now)) is not None:
            self._pending.receipts[before.seq, loser] = None
            self._cache.lost[before.seq, loser] = None
        elif begins_anew(before, now):
            self._forget_receipts(before.seq)

    def _forget_receipts(self, seq: int) -> None:
        pending = self._pending
        pending.anew[seq] = None
        self._cache.receipts[seq] = {}
        if self._cache.lost:
            for key in [key for key in self._cache.lost if key[0] == seq]:
                del self._cache.lost[key]
        pending.receipts = {key: None for key in pending.receipts if key[0] != seq}

    # fmt: off
    OF_ITEMS: ClassVar[dict[type, Callable[[Any, object, Any], None]]] = {
        changes.AddItem:         _add,
        changes.ReplacePayload:  _replace,
        changes.Lock:            _lock,
        changes.Release:         _item,
        changes.Hold:            _item,
        changes.TakeSignal:      _item,
        changes.Wake:            _item,
        changes.Count:           _item,
        changes.CloseJoin:       _item,
        changes.Postpone:        _item,
        changes.Extend:          _item,
        changes.SetLife:         _item,
        changes.SetTimes:        _item,
        changes.Revive:          _item,
        changes.Ripen:           _item,
        changes.TakeTurn:        _item,
        changes.GiveUp:          _give_up,
        changes.RemoveItem:      _remove,
    }
    # fmt: on

    # Nodes, subscriptions, addresses and other rows, and changes of many rows.

    def _node(
        self,
        asked: object,
        change: changes.CreateNode
        | changes.ConfigureNode
        | changes.NoteLeftOut
        | changes.DeleteNode,
    ) -> None:
        name = change.node.name if isinstance(change, changes.CreateNode) else change.node
        if self.touched and name not in self._cache.nodes:  # another was deleted before it
            self._rows.needs.nodes.add(name)
            self._rows.load()
        before = self._cache.nodes.get(name)
        if (before is None) != isinstance(change, changes.CreateNode):
            raise StaleError("node", name)
        self._note_event(asked, change)
        now = node_after(change, before)
        if isinstance(change, changes.DeleteNode):
            self._rows.flush()
        self._pending.put_node(name, now)
        if name in self.shares.of and (now is None or now.config.fair is Fair.OFF):
            self.shares.close(name)
        self._cache.whole.pop(name, None)
        self._pay(before, now)
        self.touched[name] = None
        if isinstance(change, changes.DeleteNode):
            if change.announce:
                self._pending.announce.append(name)
            if change.uri:
                self._pending.moved[name] = change.uri
            self._pending.write(self._rows.tx)
            self._cache.forget()
            self.unsure = True  # its contents have to be swept

    def _pay(self, before: Node | None, now: Node | None) -> None:
        """Note the account of a new node; if a node changes its account, the store has to sum up again."""
        if before is None and now is not None:
            self._pending.hold(now.creator, 1, 0, 0)
        elif before is not None and now is not None and before.creator != now.creator:
            self._cache.of[HOLDINGS].pop(before.creator, None)
            self._cache.of[HOLDINGS].pop(now.creator, None)

    def _affiliation(self, _asked: object, change: changes.SetAffiliation) -> None:
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
        added = change.subscription if isinstance(change, changes.AddSubscription) else None
        node = (
            change.subscription.node if isinstance(change, changes.AddSubscription) else change.node
        )
        jid = change.subscription.jid if isinstance(change, changes.AddSubscription) else change.jid
        before = self._cache.subscription(node, jid)
        if before is ABSENT:
            self._rows.needs.subscriptions.add((node, account_of(jid)))
            self._rows.load()
            before = self._cache.subscription(node, jid)
        if (before is None) != (added is not None):
            raise StaleError("subscription", (node, jid))
        now = subscription_after(change, before)
        self._pending.put_subscription(before, now)
        if isinstance(change, changes.NoteUnanswered) and change.until is not None:
            self._hold_back(node, jid, change.until)
        elif now is None or not now.unanswered:
            self._hold_back_no_more(node, jid)
        if now is not None and now.ends_next is not None:
            self.soonest = min(self.soonest, now.ends_next)
        if now is None or has_room(now):
            self.touched[node] = None
        if (before is None) != (now is None):
            # the counts so far do not apply to a later subscription of this JID, which counts its own locks
            self._pending.counters.forget_locks(node, jid)
            if (row := self._cache.nodes.get(node)) is not None:
                by = 1 if before is None else -1
                self._pending.put_node(node, replace(row, subscriptions=row.subscriptions + by))

    def _call_groups(self, _asked: object, change: changes.CallGroups) -> None:
        self.groups.update(dict.fromkeys((change.node, group) for group in change.groups))

    def _recount(self, _asked: object, change: changes.Recount) -> None:
        if (windows := self._cache.windows.get(change.node)) is not None:
            windows.recount(change.jid)
        self.touched[change.node] = None

    def _open_window(self, _asked: object, change: changes.OpenWindow) -> None:
        self.takes.open(change)
        self.touched[change.node] = None

    def _spend(self, _asked: object, change: changes.SpendRate) -> None:
        if (row := self._cache.nodes.get(change.node)) is not None:
            self._pending.put_node(change.node, replace(row, spent=change.spent))

    def _put_row(self, _asked: object, change: changes.PutRow) -> None:
        row, kind = change.row, KIND_OF[type(change.row)]
        self.put(kind, kind.key_of(row), row)
        if isinstance(row, Schedule) and row.due is not None:
            self.soonest = min(self.soonest, row.due)

    def _drop_row(self, _asked: object, change: changes.DropRow) -> None:
        self.put(KIND_OF[change.kind], change.key, None)

    def _resource(
        self, _asked: object, change: changes.NoteResource | changes.ForgetResource
    ) -> None:
        group = self._cache.resources.get(account_of(change.jid), {})
        self._pending.resources.setdefault(change.jid, change.jid in group)
        if isinstance(change, changes.NoteResource):
            group.setdefault(change.jid, Sign())
        else:
            group.pop(change.jid, None)
            self._pending.left.add(change.jid)
            self._cache.present.discard(change.jid)
            self._cache.able.pop(change.jid, None)
            for noted in (self._pending.present, self._pending.active, self._pending.able):
                noted.pop(change.jid, None)

    def _present(self, _asked: object, change: changes.NotePresence) -> None:
        known = self._cache.resources.get(account_of(change.jid), {})
        if change.jid in known and change.jid not in self._cache.present:
            self._cache.present.add(change.jid)
            self._pending.present[change.jid] = None

    def _able(self, _asked: object, change: changes.NoteAble) -> None:
        if change.jid in self._cache.resources.get(account_of(change.jid), {}):
            self._cache.able[change.jid] = self._pending.able[change.jid] = change.able

    def _note_activity(self, _asked: object, change: changes.NoteActivity) -> None:
        """Note the time at which the JID sent something, and the lock token after which it did."""
        group = self._cache.resources.get(account_of(change.jid), {})
        if (known := group.get(change.jid)) is None:
            return
        token, at = self._pending.tokens.first(self._rows.tx, 1), change.at or Millis(0)
        sign = Sign(max(known.token, token), max(known.at, at))
        if sign != known:
            group[change.jid] = self._pending.active[change.jid] = sign

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
        self._rows.flush()
        self._note_event(asked, change)
        self._pending.write(self._rows.tx, change)
        self.unsure = True
        if isinstance(change, changes.Forget):
            self._cache.of[FINISHED].clear()
            self._cache.of[SETTLED].clear()
            self._cache.of[USED_KEYS].clear()
            self._cache.of[PING_ANSWERS].clear()
            self._cache.of[ANSWERED].clear()
            self._cache.of[KEY_TOTALS].clear()
        elif isinstance(change, t.Sweep):  # it removes only unused apps, which no request reads
            self._cache.of[APPS].clear()
            for orphan in change.orphans:
                if orphan.joins > 0:
                    self._tally(orphan.joins, swept(orphan))
        elif not isinstance(change, _UNKNOWN):
            self._cache.forget()
        if isinstance(change, changes.PurgeNode) and change.leaves is not None:
            self._rows.node(change.node)  # it was forgotten
            self._rows.load()
            self._add(asked, change.leaves)
        if isinstance(change, t.Commit):
            self._pending.numbers.forget()  # its items have numbers after the block
            self.touched.update(dict.fromkeys(committed.node for committed in change.nodes))

    def _end_many(self, asked: object, change: changes.EndSubscriptions) -> None:
        """End subscriptions in the store: of a crowd hardly any is loaded."""
        self._rows.flush()
        row = self._cache.nodes.get(change.node)
        if row is None:
            raise StaleError("node", change.node)
        self._cache.forget_subscribers(change.node, change.jids)
        self._pending.put_node(
            change.node, replace(row, subscriptions=row.subscriptions - len(change.jids))
        )
        self._note_event(asked, change)
        self._pending.write(self._rows.tx, change)
        self.touched[change.node] = None

    # fmt: off
    _BULK: ClassVar[dict[type, Callable[[Any, object, Any], None]]] = dict.fromkeys((
        changes.PurgeNode, changes.DropFormer, changes.BeginReview, changes.EndReview, changes.BeginTrim, changes.EndTrim, changes.Forget,
        changes.ForgetEvents, changes.NoteSamples, changes.NoteSums, t.SetAside, t.Commit, t.Moved, t.Abort, t.Restore, t.Sweep,
    ), _bulk)

    MAKE: ClassVar[dict[type, Callable[[Any, object, Any], None]]] = {
        changes.CreateNode:      _node,
        changes.ConfigureNode:   _node,
        changes.NoteLeftOut:     _node,
        changes.DeleteNode:      _node,
        changes.EndSubscriptions: _end_many,
        changes.SetAffiliation:  _affiliation,
        changes.AddSubscription: _subscription,
        changes.AddAnother:      _subscription,
        changes.SetWindow:       _subscription,
        changes.SetLockTimeout:  _subscription,
        changes.SetLevel:        _subscription,
        changes.SetTerms:        _subscription,
        changes.Approve:         _subscription,
        changes.SetAvailable:    _subscription,
        changes.SetQuiet:        _subscription,
        changes.EndSubscription: _subscription,
        changes.NoteUnanswered:  _subscription,
        changes.NoteResource:    _resource,
        changes.NotePresence:    _present,
        changes.NoteActivity:    _note_activity,
        changes.NoteAble:        _able,
        changes.ForgetResource:  _resource,
        **OF_ITEMS,
        **_BULK,
        changes.CallGroups:      _call_groups,
        changes.SpendRate:       _spend,
        changes.PutRow:          _put_row,
        changes.DropRow:         _drop_row,
        changes.Recount:         _recount,
        changes.OpenWindow:      _open_window,
        t.Stage:           _stage,
    }
    # fmt: on

    AT_ONCE: ClassVar = frozenset({*_BULK, changes.DeleteNode, changes.EndSubscriptions})
    """Changes that are written at once, after all earlier ones."""
