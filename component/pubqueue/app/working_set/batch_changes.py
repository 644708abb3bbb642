"""The changes of a batch: rows before and after, counters, the entries of event logs.

They are written before a read that has to show them, and at the end of the batch.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pubqueue.app.store.item_listings import HeldOf
from pubqueue.app.store.listings import FreeSubscriptions
from pubqueue.app.store.rows import HOLDINGS
from pubqueue.app.working_set.counters import Counters
from pubqueue.app.working_set.crowd_windows import CROWD, CrowdWindows
from pubqueue.app.working_set.free_windows import FreeWindows
from pubqueue.app.working_set.held_back import HeldBack
from pubqueue.app.working_set.open_windows import OpenWindows
from pubqueue.app.working_set.pending_writes import PendingWrites
from pubqueue.app.working_set.rate_waits import RateWaits
from pubqueue.app.working_set.sequences import Numbers
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Millis, account_of
from pubqueue.model.records import Holding
from pubqueue.rules.event_log import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.store.rows import Bulk
    from pubqueue.app.working_set.open_windows import Takers
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, Jid, Node, NodeName, Subscription
    from pubqueue.rules.dispatch import TakeWindow

    Group = tuple[NodeName, str]

NEVER: Final = Millis(1 << 62)

ENOUGH: Final = 1000
"""Room up to which the windows of takes are counted: no batch delivers more."""


class BatchChanges:
    """The rows that a batch has changed; `touched` are the nodes to deliver items of."""

    def __init__(
        self, rows: WorkingSet, reaches: Callable[[Jid], bool], takers: Takers = frozenset()
    ) -> None:
        self._rows = rows
        self._reaches = reaches
        self._cache = rows.cache
        self._tokens = Numbers("token")
        self._numbers = Numbers("item")
        self.now = Millis(0)
        self.touched: dict[NodeName, None] = {}
        self.soonest = NEVER
        """The next time at which something that this batch has changed ends."""
        self.unsure = True
        """Whether something may end sooner than this process knows."""
        self._forgot = False
        self._pending = PendingWrites()
        self._counters = Counters()
        self.groups: dict[Group, None] = {}
        """Groups whose turn may have come."""
        self.waits = RateWaits()
        self.held_back = HeldBack()
        self.takes = OpenWindows(takers)
        self._serve(rows)

    def _serve(self, rows: WorkingSet) -> None:
        """Have the rows written before a read that has to show these changes."""
        rows.flush, rows.is_unwritten = self.flush, self.is_unwritten
        rows.next_token = self.next_token

    def begin(self, now: Millis, *, foreign: bool) -> None:
        """Begin a batch."""
        self.now = now
        self.touched = {}
        self.groups = {}
        self.waits.begin()
        self.takes.begin()
        self.soonest = NEVER
        self.unsure = foreign or self._forgot
        self._forgot = False
        if foreign:
            self._tokens.forget()
            self._numbers.forget()

    def forget(self) -> None:
        """Forget everything: the transaction was rolled back, and with it the reserved numbers."""
        self._cache.forget()
        self._forgot = True
        self.waits.undo()
        self.held_back.undo()
        self.takes.undo()
        self._pending = PendingWrites()
        self._counters = Counters()
        self._tokens.forget()
        self._numbers.forget()

    def has_changed(self, seq: int) -> bool:
        """Return whether this batch has changed the item and not written it yet."""
        return seq in self._pending.items

    def changed_items(self) -> Iterable[tuple[Item | None, Item | None]]:
        """Return the items that this batch has changed and not written yet, each before and after."""
        numbered = self._cache.numbered
        return ((before, numbered.get(seq)) for seq, before in self._pending.items.items())

    @property
    def sequences(self) -> tuple[Numbers, Numbers]:
        """The sequences of lock tokens and of item numbers."""
        return self._tokens, self._numbers

    def next_number(self) -> int:
        """Return a number that no item and no turn has, higher than all that were given before."""
        return self._numbers.take(self._rows.tx)

    def soonest_or_none(self) -> Millis | None:
        """Return the next time at which something that this batch has changed ends; None if nothing does."""
        return None if self.soonest == NEVER else self.soonest

    def tokens(self, count: int) -> int:
        """Return the first of `count` consecutive lock tokens; a lock takes each that is used."""
        return self._tokens.first(self._rows.tx, count)

    def next_token(self) -> int:
        """Return the token of the next lock, 0 if it is not known."""
        return self._tokens.next

    # --- rows that others depend on ---

    def _count(self, node: NodeName, by: int, size: int) -> None:
        """Count items of a node, and their bytes: at once if the node has a bound, otherwise together with the rest of the batch."""
        # without calls for the row and for `is_bounded`, because each item comes here twice
        nodes = self._cache.nodes
        row = nodes[node] if node in nodes else None  # noqa: SIM401
        if row is None:
            self._counters.unpaid(node, by, size)
        else:
            self._hold(row.creator, 0, by, size)
        if row is not None and (row.config.max_items or row.config.max_bytes):
            now = replace(row, items=row.items + by, bytes=row.bytes + size)
            self._put_node(node, now)
        else:
            self._counters.item(node, by, size)

    def _count_done(self, node: NodeName, by: int, size: int) -> None:
        """Count what is done in a node: its account pays for the bytes."""
        row = self._cache.nodes.get(node)
        if row is None:
            self._counters.unpaid(node, 0, size)
        else:
            self._hold(row.creator, 0, 0, size)
        self._counters.done(node, by, size)

    def _hold(self, account: Jid, nodes: int, items: int, size: int) -> None:
        """Update the account's total, if it is loaded: the store sums it up from the nodes."""
        holdings = self._cache.of[HOLDINGS]
        if account in holdings:
            holdings[account] = (holdings[account] or Holding(account)).more(nodes, items, size)

    def resolve(self) -> None:
        """Add the counts to their rows, loading those that are not known."""
        counters, cache = self._counters, self._cache
        if not counters:
            return
        if (needs := counters.needs(cache)) is not None:
            cache.fill(needs, self._rows.tx.load(needs))
        for node, counted in counters.take_nodes(cache):
            self._put_node(node.name, counted)
        for payer, items, size in counters.take_unpaid(cache):
            self._hold(payer, 0, items, size)
        for before, now in counters.take_subscriptions(cache):
            self._put_subscription(before, now)

    def _put_node(self, name: NodeName, now: Node | None) -> None:
        self._pending.nodes.setdefault(name, self._cache.nodes.get(name))
        self._cache.nodes[name] = now

    def _put_subscription(self, before: Subscription | None, now: Subscription | None) -> None:
        row = now or before
        assert row is not None
        cache, node, jid = self._cache, row.node, row.jid
        account = account_of(jid)
        self._pending.subscriptions.setdefault((node, jid), before)
        cache.rights.clear()
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
        if (
            before is None
            or now is None
            or before.listens != now.listens
            or before.several != now.several
        ):
            cache.audiences.pop(node, None)

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

    # --- writing ---

    def is_unwritten(self) -> bool:
        """Return whether the batch has changes that are not written yet."""
        return bool(self._counters) or not self._pending.is_empty()

    def flush(self) -> None:
        """Write the changes, so that the next reads show them."""
        self.resolve()
        if not self._pending.is_empty():
            self._write()

    def _write(self, *bulk: Bulk) -> None:
        writes = self._pending.writes(self._cache, self.now)
        writes.bulk.extend(bulk)
        self._pending = PendingWrites()
        self._rows.tx.write(writes)


def _set(group: dict[Any, Subscription], key: object, row: Subscription | None) -> None:
    if row is None:
        group.pop(key, None)
    else:
        group[key] = row
