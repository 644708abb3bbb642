"""Dispatch: ready items x free windows -> locks, for the queues that a batch has touched.

Ready items come from the store, and from this batch if they are not written yet. Deliveries beyond
the allowance are remembered as the rest, for the next batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.dispatch.carrying import Carrying
from pubqueue.app.store.listings import ReadyNodes
from pubqueue.app.store.rows import Passed, Reach, rank, up_to
from pubqueue.model.changes import Lock, SpendRate
from pubqueue.model.entities import Level, account_of
from pubqueue.model.notices import Deliver
from pubqueue.rules.deliveries import levels_of
from pubqueue.rules.dispatch import allowed, dispatch, free_again, spend

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue.app.facts.context import Context
    from pubqueue.app.store.listings import Place
    from pubqueue.app.working_set.change_applier import ChangeApplier
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, Jid, Node, NodeName, Subscription
    from pubqueue.model.notices import Notice

    Ready = dict[NodeName, list[tuple[Item, bytes]]]

MAX_DELIVERIES: Final = 1000
"""Maximum deliveries of one batch."""

MAX_BYTES: Final = 1 << 20
"""Bytes of payload, likewise: while any allowance is left, one more item is delivered."""

PASSED_OVER: Final = 10_000
"""Maximum number of expired items, not removed by the reaper yet, that are skipped in one batch."""

FEWEST: Final = 64
"""The minimum for each node, however many nodes there are."""

NO_LEVEL: Final = Level.UNACKNOWLEDGED

LOOKED_AT: Final = 256
"""Maximum number of places that one batch examines when it looks around; the next one continues after them."""


class Allowance:
    """How many deliveries a batch may still make."""

    def __init__(self) -> None:
        self.items = MAX_DELIVERIES
        self.byte_count = MAX_BYTES

    def is_spent(self) -> bool:
        """Return whether nothing is left of it."""
        return self.items <= 0 or self.byte_count <= 0


def hand_out(
    context: Context, changes: ChangeApplier, names: dict[NodeName, None]
) -> tuple[list[Notice], list[NodeName]]:
    """Lock ready items to free subscribers, in these nodes and in those that were touched.

    Return the deliveries, and the nodes left for lack of allowance, or because there are more places to skip in
    them.
    """
    names.update(changes.touched)
    names.update(dict.fromkeys(changes.waits.over(context.now)))
    names.update(dict.fromkeys(changes.no_longer_held_back()))
    changes.touched = {}
    dispatcher = _Dispatcher(context, changes)
    deliveries: list[Notice] = []
    while names:
        left = dispatcher.round(names, deliveries)
        if dispatcher.allowance.is_spent() or dispatcher.passing:
            return deliveries, left
        names = dict.fromkeys(left)
        changes.touched = {}
    return deliveries, []


def look_around(rows: WorkingSet, behind: Place | None) -> tuple[list[NodeName], Place | None]:
    """Return queues that may have items to deliver, and the place at which to continue, if there is more to examine."""
    if rows.lacking:
        rows.load()  # left by a failed request: it is dropped before any page is read
    seen = rows.page_now(ReadyNodes(), behind, LOOKED_AT)
    names = [look.node for look in seen if look.node is not None]
    return names, seen[-1].place if len(seen) == LOOKED_AT else None


class _Dispatcher:
    """Rounds of dispatch: a node whose item was put aside for a subscriber has another round."""

    def __init__(self, context: Context, changes: ChangeApplier) -> None:
        self.allowance = Allowance()
        self._carrying = Carrying(context, changes)
        self.passing: set[NodeName] = set()
        """Nodes in which expired items have been skipped, and there are more."""
        self._unfinished: set[NodeName] = set()
        self._doubted: set[NodeName] = set()
        self._context = context
        self._rows = context.rows
        self._changes = changes

    def round(self, names: Iterable[NodeName], deliveries: list[Notice]) -> list[NodeName]:
        """Dispatch once in each node; return those with more to deliver, first those that have not had a turn."""
        rooms = self._rooms(names)
        ready, drained = self._ready(rooms)
        unreached: list[NodeName] = []
        again: list[NodeName] = []
        for name in rooms:
            rows = ready.get(name, [])
            if self.allowance.is_spent():
                unreached.append(name)
                continue
            if self._carrying.meets_large(name, rows):
                again.append(name)
                continue
            made = self._node(name, rows, deliveries)
            locks = [type(change) for change in made].count(Lock)
            self._charge(name, locks)
            if made and name in self._unfinished:
                self.passing.add(name)
            if locks < len(made) or self.allowance.is_spent() or name in self.passing:
                again.append(name)
            elif name in drained and locks == len(rows):
                self._rows.cache.idle.add(name)
        return unreached + again

    def _rooms(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the queues that can deliver, each with the maximum number of items."""
        rows = self._rows
        for name in names:
            rows.node(name)
        if rows.lacking:
            rows.load()
        for name in names:
            if hands_out(rows.node(name)) and self._changes.windows(name) is None:
                rows.subscribers(name)
        if rows.lacking:
            rows.load()
        self._changes.resolve()
        if self._changes.takes:
            self._changes.load_takers(names)
        self._changes.waits.end(names)
        rooms: dict[NodeName, int] = {}
        for name in names:
            room = min(self._room(name), MAX_DELIVERIES)
            if room and (room := min(room, self._free(name))):
                rooms[name] = room
                self._carrying.look(name)
        return rooms

    def _room(self, name: NodeName) -> int:
        """Return how many items could be delivered, regardless of the rate."""
        node, windows = self._rows.node(name), self._changes.windows(name)
        if node is None or not hands_out(node) or windows is None:
            return 0
        return windows.room + (self._changes.room_of_takes(node) if self._changes.takes else 0)

    def _free(self, name: NodeName) -> int:
        """Return how many items the rate of the node allows now; if none, schedule another look."""
        node, waits = self._rows.node(name), self._changes.waits
        if node is None or (free := allowed(node, self._context.now)) is None:
            return MAX_DELIVERIES
        if free <= 0:
            waits.set(name, free_again(node, self._context.now))
        return max(0, free)

    def _charge(self, name: NodeName, locks: int) -> None:
        """Count the deliveries against the rate of the node."""
        node = self._rows.node(name)
        if not locks or node is None or node.config.rate is None:
            return
        now = self._context.now
        self._changes.make(None, [SpendRate(name, spend(node, now, locks))])
        node = self._rows.node(name)
        if node is not None and not allowed(node, now):
            self._changes.waits.set(name, free_again(node, now))

    def _ready(self, rooms: dict[NodeName, int]) -> tuple[Ready, set[NodeName]]:
        """Return the ready items of each node, in their order, and the nodes of which the store has no more."""
        cache, now = self._rows.cache, self._context.now
        found: Ready = {}
        for name in rooms:
            fresh = cache.ready.get(name)
            if fresh:
                living = [i for i in fresh.values() if i.expires is None or i.expires > now]
                found[name] = [(item, cache.payloads.get(item.seq, b"")) for item in living]
        asked = {name: room for name, room in rooms.items() if name not in cache.idle}
        counts = dict.fromkeys(asked, 0)
        outdated: set[NodeName] = set()
        if asked:
            for item, payload in self._look(asked):
                counts[item.node] += not item.aside
                if self._changes.has_changed(item.seq):  # the batch's version is newer
                    outdated.add(item.node)
                else:
                    found.setdefault(item.node, []).append((item, payload))
        if any(counts[name] >= asked[name] for name in outdated):
            self._changes.flush()  # they took the place of others that are ready
            return self._ready(rooms)
        for rows in found.values():
            if len(rows) > 1:
                rows.sort(key=lambda row: rank(row[0]))
        self._load_payloads(found)
        self._carrying.leave_out(found)
        drained = {name for name, room in asked.items() if counts[name] < room}
        return found, drained - self._unfinished - self._doubted

    def _look(self, asked: dict[NodeName, int]) -> list[tuple[Item, bytes]]:
        """Return the ready items of the store, after places up to which all have expired."""
        passed, now = self._rows.cache.passed, self._context.now
        known = {name: passed[name] for name in asked if name in passed}
        behind = {name: places for name, (at, places) in known.items() if at <= now}
        share = max(FEWEST, PASSED_OVER // len(asked))
        nodes = map(self._rows.node, asked)
        far = all(node is None or node.items <= share for node in nodes)  # no lifetime ends early
        sizes = self._carrying.sizes
        reach = Reach(behind, sizes=sizes) if far else Reach(behind, share * len(asked), sizes)
        ready = self._rows.tx.ready(asked, now, self.allowance.byte_count, reach)
        self._unfinished = set(ready.passed)
        for name, places in ready.passed.items():
            if places != behind.get(name):
                self.passing.add(name)
            passed[name] = now, places
        self._end_looks(behind, ready.rows)
        return ready.rows

    def _end_looks(
        self, behind: Mapping[NodeName, Passed], rows: Iterable[tuple[Item, bytes]]
    ) -> None:
        """Note where the first live item was found; a doubtful place is valid for one look."""
        cache, now = self._rows.cache, self._context.now
        ended = behind.keys() - self._unfinished
        self._doubted = ended & cache.doubted
        for name in self._doubted:
            cache.doubted.discard(name)
            del cache.passed[name]
        left = ended - self._doubted
        for item, _ in rows if left else ():
            if (
                item.node in left and not item.aside
            ):  # the first of its node, because they come in order
                left.discard(item.node)
                places = Passed(up_to(item), behind[item.node].aside)
                cache.passed[item.node] = now, places

    def _load_payloads(self, found: Ready) -> None:
        """Load payloads of items that became ready in this batch and were published before it."""
        cache, rows = self._rows.cache, self._rows
        for name, ready in found.items():
            fresh = cache.ready.get(name, {})
            missing = [i for i, _ in ready if i.seq in fresh and i.seq not in cache.payloads]
            rows.needs.payloads.update(item.seq for item in missing)
        if rows.needs.payloads:
            rows.load()
            for ready in found.values():
                ready[:] = [(i, payload or cache.payloads.get(i.seq, b"")) for i, payload in ready]

    def _node(
        self, name: NodeName, rows: Sequence[tuple[Item, bytes]], deliveries: list[Notice]
    ) -> list[Change]:
        node, windows = self._rows.node(name), self._changes.windows(name)
        if not rows or windows is None or node is None:
            return []
        if len(rows) > self.allowance.items:
            rows = rows[: self.allowance.items + sum(item.aside for item, _ in rows)]
        now, line = self._context.now, self._carrying.line(name, len(rows) + 2)
        takes, asking = self._changes.takes, self._carrying.takes(node, len(rows) + 2)
        made = dispatch(
            node,
            [item for item, _ in rows],
            line,
            now=now,
            first_token=self._changes.tokens(len(rows)),
            most=allowed(node, now),
            carriers=self._carrying.carriers(name, rows, (*line, *asking)),
            takes=asking,
        )
        self._changes.make(None, made)
        payloads = {item.seq: payload for item, payload in rows}
        subids = {each.jid: each.subid for each in line}
        levels = self._levels(node, line)
        numbered = self._rows.cache.numbered
        for change in made:
            if type(change) is Lock:
                item, payload = numbered[change.item.seq], payloads[change.item.seq]
                assert item is not None
                if change.take:
                    takes.served(change.take, Deliver(change.holder, item, payload))
                else:
                    to, subid = change.holder, subids[change.holder]
                    level = levels.get(to, NO_LEVEL) if levels else NO_LEVEL
                    deliveries.append(Deliver(to, item, payload, subid=subid, level=level))
                self.allowance.items -= 1
                self.allowance.byte_count -= len(payload)
        return made

    def _levels(self, node: Node, line: Sequence[Subscription]) -> dict[Jid, Level]:
        """Return who of these gets something else than messages."""
        rows = self._rows
        if node.config.qos is not Level.UNACKNOWLEDGED:
            for each in line:
                rows.resources(account_of(each.jid))
            if rows.lacking:
                rows.load()
        return levels_of(node.config, line, rows.is_able)


def hands_out(node: Node | None) -> bool:
    """Return whether it is a queue whose items are being delivered."""
    return node is not None and node.config.queueing and not node.config.paused
