"""Which groups of a queue with fair shares are next (`rules.shares`): what each has used, and which may have ready items."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pubqueue.engine.listings import ANY_SIZE, GroupsReady, GroupsWithTurns
from pubqueue.engine.rows import Passed, Reach, rank
from pubqueue.model.after import is_ready
from pubqueue.model.entities import Millis
from pubqueue.rules.shares import (
    NOTHING,
    Line,
    Use,
    begun,
    ended,
    in_turn,
    learned,
    level,
    starting,
    weights_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.engine.context import Context
    from pubqueue.engine.writes import RowCache
    from pubqueue.model.entities import Item, Node, NodeName

    Rows = list[tuple[Item, bytes]]
    Entry = tuple[float, int, str]


# What is kept in memory of a queue: the use of its groups, and the groups that may have ready items, ordered by their use.
#
# Only a process that delivers keeps it, of its own deliveries: after a start every group is new. The store alone knows what is ready.
# A group is among the candidates once an item of it becomes ready here, or once the store lists it; it leaves them when
# it is looked at and has none. So a candidate too many costs a look, and one too few would have to wait: whenever this process may not
# know of items that became ready, the names of all groups are listed again, slice by slice (`RowCache.walks`).
#
# Items without a group, and those that were put aside for a subscriber, are found in the order of the queue, as in others.

MOST: Final = 10_000
"""Groups of a queue whose use is remembered, the most recent. Half as many are candidates at most; others follow when there are fewer."""

OF_ALL: Final = 100_000
"""Groups of all queues together: of many queues fewer groups of each are remembered, but `FEWEST`."""

FEWEST: Final = 100

SLICE: Final = 250
"""Names of groups that are listed in one step."""

LOOKED_AT: Final = 256
"""Groups whose items are listed first; four times as many if these had too few, up to `LOOKS` times."""

LOOKS: Final = 3

ROWS: Final = 50_000
"""Rows of items with turns that are examined for it: fewer groups are listed at once if their limits are high."""

PLACES: Final = 2000
"""Places in the order of the queue that are examined for items without a group."""

NO_GROUP: Final = ""
START: Final = Passed()
SLIGHT: Final = 1e-9
"""A difference between levels that is none."""


class Share:
    """The groups of one queue. `undone` gets the values that a change replaces, for a batch that is rolled back."""

    def __init__(self, undone: list[tuple[dict[Any, Any], Any, Any]]) -> None:
        self._undone = undone
        self.uses: dict[str, Use] = {}
        """By group, those first that have not changed for longest."""
        self.usual = 0.0
        """For how many milliseconds an item is usually held."""
        self.candidates: dict[str, tuple[float, int]] = {}
        """Groups that may have ready items: the level of each when it was last computed, and a number that rises."""
        self.are_others: bool = True
        """Whether items without a group may be ready, or some that were put aside."""
        self.behind = START
        """The place from which on to look for these."""
        self.is_doubted = False
        """Whether some may have come in front of that place."""
        self.most = MOST
        self.cursor = ""
        """The name up to which the groups were listed."""
        self._weights_text = ""
        self.weights: Mapping[str, int] = {}
        self._line: list[Entry] = []
        """The candidates by level. An entry that differs from `candidates` is outdated."""
        self._last = 0
        self._locked: dict[int, tuple[str, Millis]] = {}
        """The locks that count, by the numbers of items: the group, and until when."""
        self._ends: list[tuple[Millis, int]] = []

    def _put(self, table: dict[Any, Any], key: object, value: object) -> None:
        """Set a value (None: none) that a rollback sets back."""
        self._undone.append((table, key, table.pop(key, None)))
        if value is not None:
            table[key] = value

    # --- use ---

    def weight(self, group: str) -> int:
        """Return the weight of a group."""
        return self.weights.get(group, 1)

    def level(self, group: str, now: Millis) -> float:
        """Return where a group stands."""
        return level(self.uses.get(group, NOTHING), self.weight(group), self.usual, now)

    def weigh(self, text: str, now: Millis) -> None:
        """Use these weights."""
        if text != self._weights_text:
            self._weights_text, self.weights = text, weights_of(text)
            self.compute(now)

    def begin(self, item: Item, now: Millis) -> None:
        """Count a lock."""
        self._use(item.group, begun(self.uses.get(item.group, NOTHING), now), now)
        self.hold(item)

    def hold(self, item: Item) -> None:
        """Note until when a lock counts, even if its end is not seen: another process may make it."""
        if item.deadline is not None:
            self._put(self._locked, item.seq, (item.group, item.deadline))
            heapq.heappush(self._ends, (item.deadline, item.seq))

    def end(self, seq: int, now: Millis, took: float | None = None) -> None:
        """End the count of a lock."""
        known = self._locked.get(seq)
        if known is None:
            return
        self._put(self._locked, seq, None)
        group = known[0]
        if took is not None:
            self.usual = learned(self.usual, took)
        self._use(group, ended(self.uses.get(group, NOTHING), now), now)

    def end_overdue(self, now: Millis) -> None:
        """End the counts of locks whose time is over."""
        while self._ends and self._ends[0][0] < now:
            until, seq = heapq.heappop(self._ends)
            if seq in self._locked and self._locked[seq][1] == until:
                self.end(seq, now)

    def _use(self, group: str, use: Use, now: Millis) -> None:
        self._put(self.uses, group, use)
        if (known := self.candidates.get(group)) is not None:
            self._push(group, self.level(group, now), known[1])
        tries = 8
        while len(self.uses) > self.most and tries:
            tries -= 1
            oldest = next(iter(self.uses))
            kept = self.uses[oldest].held or oldest in self.candidates
            last = self.uses[oldest]
            self._put(self.uses, oldest, None)
            if kept:
                self._put(self.uses, oldest, last)

    # --- candidates ---

    @property
    def is_full(self) -> bool:
        """Whether there are as many candidates as there may be."""
        return len(self.candidates) >= self.most // 2

    def add(self, group: str, now: Millis) -> bool:
        """Let a group be a candidate; return false if there are too many. A new one stands where the first of them does."""
        if group in self.candidates:
            return True
        if self.is_full:
            return False
        if group not in self.uses:
            first = self.first_level(now)
            if first != math.inf:
                self._use(group, starting(first, self.weight(group), now), now)
        self._last += 1
        self._push(group, self.level(group, now), self._last)
        return True

    def _push(self, group: str, at: float, order: int) -> None:
        if self.candidates.get(group) != (at, order):  # else it is in the order already
            self.candidates[group] = at, order
            heapq.heappush(self._line, (at, order, group))

    def tidy(self) -> None:
        """Drop what is outdated, if it is much."""
        if len(self._line) > 4 * len(self.candidates) + 64:
            self.sort()
        if len(self._ends) > 4 * len(self._locked) + 64:
            self._ends = [(until, seq) for seq, (_, until) in self._locked.items()]
            heapq.heapify(self._ends)

    def sort(self) -> None:
        """Order the candidates again, each by the level that was last computed."""
        self._line = [(*entry, group) for group, entry in self.candidates.items()]
        heapq.heapify(self._line)

    def compute(self, now: Millis) -> None:
        """Compute the levels of all candidates, and order them."""
        for group, (_, order) in self.candidates.items():
            self.candidates[group] = self.level(group, now), order
        self.sort()

    def least(self, count: int, now: Millis) -> list[str]:
        """Take up to this many candidates with the least out of the order; `put_back` or `drop` each."""
        found: dict[str, None] = {}
        while self._line and len(found) < count:
            at, order, group = heapq.heappop(self._line)
            if self.candidates.get(group) != (at, order) or group in found:
                continue
            if (current := self.level(group, now)) > at + SLIGHT:  # what it holds has been used
                self._push(group, current, order)
            else:
                found[group] = None
        return list(found)

    def first_level(self, now: Millis) -> float:
        """Return where the first candidate stands; infinity if there is none."""
        first = self.least(1, now)
        self.put_back(first)
        return self.candidates[first[0]][0] if first else math.inf

    def put_back(self, groups: Iterable[str]) -> None:
        """Put candidates back into the order."""
        for group in groups:
            heapq.heappush(self._line, (*self.candidates[group], group))

    def drop(self, group: str) -> None:
        """Let a group be no candidate: it has nothing ready."""
        del self.candidates[group]


class Shares:
    """The queues with fair shares that this process delivers from. `of` is empty as long as there are none."""

    def __init__(self, cache: RowCache) -> None:
        self.of: dict[NodeName, Share] = {}
        """Those first that have not been looked at for longest."""
        self._cache = cache
        self._now = Millis(0)
        self._undone: list[tuple[dict[Any, Any], Any, Any]] = []

    def begin(self, now: Millis) -> None:
        """Begin a batch: the changes of the last one are committed."""
        self._now = now
        self._undone.clear()

    def undo(self) -> None:
        """Set back what the batch has counted: it was rolled back. The groups are listed again."""
        for table, key, value in reversed(self._undone):
            table.pop(key, None)
            if value is not None:
                table[key] = value
        self._undone.clear()
        for share in self.of.values():
            share.behind = START
            share.compute(self._now)

    def open(self, node: Node, now: Millis) -> Share:
        """Return what is known of a queue; from now on its items are counted."""
        self._now = now
        share = self.of.pop(node.name, None)
        if share is None:
            share = Share(self._undone)
            while len(self.of) >= OF_ALL // FEWEST:
                self.close(next(iter(self.of)))
        self.of[node.name] = share
        share.most = max(FEWEST, min(MOST, OF_ALL // len(self.of)))
        share.weigh(node.config.weights, now)
        share.end_overdue(now)
        share.tidy()
        return share

    def close(self, name: NodeName) -> None:
        """Forget a queue."""
        del self.of[name]
        self._cache.walks.pop(name, None)

    def exhausted(self, name: NodeName, groups: Iterable[str]) -> None:
        """Note that nothing of these groups is ready: all of it was delivered."""
        share = self.of[name]
        for group in groups:
            share.drop(group)

    def put(self, before: Item | None, now: Item) -> None:
        """Note that an item is as it is now: whether it can be delivered, or is held."""
        share = self.of.get(now.node)
        if share is None:
            return
        if now.aside or (is_ready(now) and not now.group):
            share.are_others, share.behind = True, START
        elif is_ready(now) and not share.add(now.group, self._now):
            self._cache.walks.pop(now.node, None)
        if now.holder is not None:
            if before is None or before.holder != now.holder:
                share.begin(now, self._now)
            else:
                share.hold(now)

    def ended(self, item: Item) -> None:
        """Count the end of the lock that an item had."""
        if (share := self.of.get(item.node)) is not None:
            took = self._now - item.taken if item.taken is not None else 0
            share.end(item.seq, self._now, took)


# A look: the next items of a queue, in the order of their groups' shares.


class Room(Struct, frozen=True, gc=False):
    """How many items can be delivered, of how many bytes together, and how large one of them may be."""

    items: int
    byte_count: int
    size: int = ANY_SIZE


class Look(Struct):
    """The next items, in order. `more`: others can be delivered after these. `is_short`: not all that is ready is known yet.

    `advanced`: the next look knows more.
    """

    rows: Rows
    groups: list[str]
    """The candidates that were looked at, and have something ready."""
    more: bool
    is_short: bool
    advanced: bool


class _Ready(Struct):
    """What was found: items by group, payloads of some by number, and the groups of which there may be more.

    `is_far`: items without a group may follow many others. `hides`: some are damaged, and may have taken the place of others.
    """

    lines: dict[str, list[Item]] = {}
    payloads: dict[int, bytes] = {}
    longer: set[str] = set()
    is_far: bool = False
    hides: bool = False


def look(context: Context, shares: Shares, node: Node, room: Room) -> Look:
    """Return the next items that there is room for."""
    now = context.now
    share = shares.open(node, now)
    context.rows.flush()  # so that the store shows all of the batch
    is_full, before = share.is_full, len(share.candidates)
    is_known = _list_groups(context, share, node)
    ready = _Ready()
    if share.are_others:
        _look_at_others(context, share, node, room, ready)
    asked = _look_at_groups(context, share, node, room, ready)
    beyond = share.first_level(now)
    share.put_back(asked)
    turn = in_turn(
        *(_lines(share, ready), share.usual, now),
        most=room.items,
        byte_count=room.byte_count,
        beyond=beyond,
    )
    rows = _with_payloads(context, turn.items, ready.payloads)
    hides = ready.hides or len(rows) < len(turn.items)
    return Look(
        rows,
        asked,
        more=turn.more or hides or len(share.candidates) > len(asked),
        is_short=not is_known or ready.is_far,
        advanced=ready.is_far or not is_full or len(share.candidates) < before,
    )


def _list_groups(context: Context, share: Share, node: Node) -> bool:
    """List the next names of groups, if some may not be known and there is room for them; return whether all are."""
    walks, name = context.rows.cache.walks, node.name
    if walks.get(name):
        return True
    if name not in walks:
        share.are_others, share.is_doubted = True, share.is_doubted or share.behind != START
        if not share.cursor:
            walks[name] = False
    if share.is_full:
        return False
    names = context.rows.tx.page(GroupsWithTurns(name), share.cursor, SLICE)
    for group in names:
        if not share.add(group, context.now):
            return False
        share.cursor = group
    if len(names) == SLICE:
        return False
    share.cursor = ""
    if name not in walks:  # others may have come before the place where this began
        return False
    walks[name] = True
    return True


def _look_at_others(context: Context, share: Share, node: Node, room: Room, ready: _Ready) -> None:
    """Find items without a group, and those that were put aside."""
    name, begin = node.name, share.behind
    reach = Reach({name: begin}, PLACES, {name: room.size}, is_alone=True)
    seen = context.rows.tx.ready({name: room.items}, context.now, room.byte_count, reach)
    queued = 0
    for item, payload in seen.rows:
        ready.lines.setdefault(item.group, []).append(item)
        ready.payloads[item.seq] = payload
        queued += not item.aside
    passed = seen.passed.get(name)
    ready.hides = name in seen.damaged
    is_full = room.byte_count <= sum(len(payload) for _, payload in seen.rows)
    if passed is not None or queued >= room.items or is_full:
        ready.longer.add(NO_GROUP)
    if passed is not None and not queued and passed.queued != begin.queued:
        ready.is_far, share.behind = True, Passed(passed.queued)
    else:
        share.behind = START
        if not (seen.rows or passed or ready.hides):
            share.are_others, share.is_doubted = share.is_doubted, False


def _look_at_groups(
    context: Context, share: Share, node: Node, room: Room, ready: _Ready
) -> list[str]:
    """Find the next items of the candidates with the least; return those that have any, which are out of the order."""
    now, cache = context.now, context.rows.cache
    asked: list[str] = []
    widest = max(1, ROWS // node.config.group_limit)
    count, found = min(LOOKED_AT, widest, room.items + 3), 0
    for _ in range(LOOKS):
        groups = share.least(count, now)
        if not groups:
            break
        each = min(room.items, 1 + 2 * room.items // len(groups))
        which = GroupsReady(tuple((node.name, group) for group in groups), now, room.size)
        lines: dict[str, list[Item]] = {group: [] for group in groups}
        for item in context.rows.tx.page(which, None, each):
            lines[item.group].append(item)
        for group, line in lines.items():
            if not line:
                share.drop(group)
                continue
            asked.append(group)
            if len(line) == each:
                ready.longer.add(group)
            living = [item for item in line if item.seq not in cache.damaged]
            ready.hides |= len(living) < len(line)
            if living:
                ready.lines.setdefault(group, []).extend(living)
            found += len(living)
        if found >= room.items:
            break
        count = min(4 * count, widest)
    return asked


def _lines(share: Share, ready: _Ready) -> list[Line]:
    """Return what was found as lines, of which the older candidates come first."""
    orders = {group: share.candidates.get(group, (0.0, 0))[1] for group in ready.lines}
    return [
        Line(
            share.uses.get(group, NOTHING),
            share.weight(group),
            place,
            sorted(ready.lines[group], key=rank),
            whole=group not in ready.longer,
        )
        for place, group in enumerate(sorted(orders, key=orders.__getitem__))
    ]


def _with_payloads(context: Context, items: list[Item], known: dict[int, bytes]) -> Rows:
    """Return the items with their payloads, without damaged ones."""
    rows, cache = context.rows, context.rows.cache
    missing = [i.seq for i in items if i.seq not in known and i.seq not in cache.payloads]
    if missing:
        rows.needs.payloads.update(missing)
        rows.load()
    return [
        (item, known[item.seq] if item.seq in known else cache.payloads.get(item.seq, b""))
        for item in items
        if item.seq not in cache.damaged
    ]
