"""Dispatch: after each batch, items that wait go to subscribers that may have them."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from pubqueue.engine import ahead
from pubqueue.engine.listings import ANY_SIZE, GroupLines, GroupTurns, ReadyNodes
from pubqueue.engine.rows import Passed, Reach, rank, up_to
from pubqueue.engine.shares import Room, look
from pubqueue.engine.task import answer_with
from pubqueue.model.changes import Lock, SpendRate
from pubqueue.model.decision import Refusal, Refused, Taken
from pubqueue.model.entities import Fair, Level, account_of
from pubqueue.model.notices import Deliver
from pubqueue.rules.deliveries import levels_of
from pubqueue.rules.dispatch import allowed, dispatch, free_again, in_line, next_turns, spend

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from pubqueue.engine.changes import ChangeApplier
    from pubqueue.engine.context import Context
    from pubqueue.engine.listings import Place
    from pubqueue.engine.shares import Look
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.changes import Change
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Jid, Node, NodeName, Subscription
    from pubqueue.model.notices import Notice
    from pubqueue.rules.dispatch import TakeWindow
    from pubqueue.rules.take import Take

    Ready = dict[NodeName, list[tuple[Item, bytes]]]
    Rows = Sequence[tuple[Item, bytes]]
    Group = tuple[NodeName, str]
    Answer = Callable[[Reply], None]


# Dispatch: ready items x free windows -> locks, for the queues that a batch has touched.
#
# Ready items come from the store, and from this batch if they are not written yet. Deliveries beyond
# the allowance are remembered as the rest, for the next batch.

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
    changes.waits.end(names)
    if changes.waits_for_room and ahead.wake(context, changes, names):
        give_turns(context, changes)
    deliveries: list[Notice] = []
    if not changes.takes:
        has_nothing = context.rows.cache.has_nothing_to_deliver
        names = {name: None for name in names if not has_nothing(name)}
    if not names:
        return deliveries, []
    dispatcher = _Dispatcher(context, changes)
    while names:
        left = dispatcher.round(names, deliveries)
        changes.touched = {}
        if changes.groups:
            give_turns(context, changes)
            left += [name for name in changes.touched if name not in left]
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
        self._damaged: set[NodeName] = set()
        self._fair: set[NodeName] = set()
        """Queues with fair shares."""
        self._looks: dict[NodeName, Look] = {}
        """What was seen of them in this round."""
        self._context = context
        self._rows = context.rows
        self._changes = changes

    def round(self, names: Iterable[NodeName], deliveries: list[Notice]) -> list[NodeName]:
        """Dispatch once in each node; return those with more to deliver, first those that have not had a turn."""
        rooms = self._rooms(names)
        if self._fair:
            ready, drained = self._ready(
                {n: room for n, room in rooms.items() if n not in self._fair}
            )
            ready |= self._in_turn(rooms)
        else:
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
            has_more = locks < len(made)
            if self._looks and name in self._looks:
                has_more |= self._has_more(name, rooms[name], locks)
            if has_more or self.allowance.is_spent() or name in self.passing:
                again.append(name)
            elif name in drained and locks == len(rows):
                self._rows.cache.idle.add(name)
        return unreached + again

    def _has_more(self, name: NodeName, room: int, locks: int) -> bool:
        """Return whether a queue with fair shares may have more to deliver, now or in the next batch."""
        seen = self._looks[name]
        if seen.is_short and locks < room and (seen.advanced or locks):
            self.passing.add(name)
            return True
        if not seen.more and locks == len(seen.rows):
            self._changes.shares.exhausted(name, seen.groups)
            if not seen.is_short:  # all that was ready has been delivered
                self._rows.cache.idle.add(name)
        return seen.more and 0 < locks < room

    def _in_turn(self, rooms: Mapping[NodeName, int]) -> Ready:
        """Return the next items of the queues with fair shares, in the order in which they are delivered."""
        cache, sizes = self._rows.cache, self._carrying.sizes
        self._looks = {}
        for name in rooms:
            node = self._rows.node(name) if name in self._fair else None
            if node is not None and not cache.has_nothing_to_deliver(name):
                size = sizes.get(name, ANY_SIZE)
                room = Room(rooms[name], self.allowance.byte_count, size)
                self._looks[name] = look(self._context, self._changes.shares, node, room)
        return {name: seen.rows for name, seen in self._looks.items()}

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
        self._rows.resolve()
        if self._changes.takes:
            self._changes.load_takers(names)
        rooms: dict[NodeName, int] = {}
        for name in names:
            if room := self._room(name):
                rooms[name] = room
                self._carrying.look(name)
        return rooms

    def _room(self, name: NodeName) -> int:
        """Return how many items can be delivered now; if only the rate of the node allows none, schedule another look."""
        node, windows = self._rows.node(name), self._changes.windows(name)
        if node is None or not hands_out(node) or windows is None:
            return 0
        if node.config.fair is Fair.GROUP:
            self._fair.add(name)
        room = windows.room + (self._changes.room_of_takes(node) if self._changes.takes else 0)
        if not room or (free := allowed(node, self._context.now)) is None:
            return min(room, MAX_DELIVERIES)
        if free <= 0:
            self._changes.waits.set(name, free_again(node, self._context.now))
        return max(0, min(room, free, MAX_DELIVERIES))

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
            looked = self._look(asked)
            if self._damaged and self._rows.pending:
                self._rows.flush()  # they may be dead by now, and took the place of others
                looked = self._look(asked)
            for item, payload in looked:
                counts[item.node] += not item.aside
                if self._changes.has_changed(item.seq):  # the batch's version is newer
                    outdated.add(item.node)
                else:
                    found.setdefault(item.node, []).append((item, payload))
        if any(counts[name] >= asked[name] for name in outdated):
            self._rows.flush()  # they took the place of others that are ready
            return self._ready(rooms)
        for rows in found.values():
            if len(rows) > 1:
                rows.sort(key=lambda row: rank(row[0]))
        self._load_payloads(found)
        self._carrying.leave_out(found)
        drained = {name for name, room in asked.items() if counts[name] < room}
        return found, drained - self._unfinished - self._doubted - self._damaged

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
        self._unfinished, self._damaged = set(ready.passed), ready.damaged
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
        if cache.damaged:
            for ready in found.values():
                ready[:] = [row for row in ready if row[0].seq not in cache.damaged]

    def _node(
        self, name: NodeName, rows: Sequence[tuple[Item, bytes]], deliveries: list[Notice]
    ) -> list[Change]:
        node, windows = self._rows.node(name), self._changes.windows(name)
        if not rows or windows is None or node is None:
            return []
        if len(rows) > self.allowance.items:
            rows = rows[: self.allowance.items + sum(item.aside for item, _ in rows)]
        sent = None
        count = len(rows) + 2
        if node.config.group_ahead:
            sent = ahead.in_order(self._context, self._changes, node, rows)
            rows, count = sent.rows, ALL if sent.holders else count
            if not rows:
                return []
        now, line = self._context.now, self._carrying.line(name, count)
        takes, asking = self._changes.takes, self._carrying.takes(node, count)
        if self._looks and _wait_for_others(rows, (*line, *asking)):
            return []  # tokens would be a write, after which another process looks again, and then this one
        carriers = self._carrying.carriers(name, rows, (*line, *asking))
        made = dispatch(
            node,
            [item for item, _ in rows],
            line,
            now=now,
            first_token=self._changes.tokens(len(rows)),
            most=allowed(node, now),
            carriers=carriers if sent is None else sent.limits(carriers),
            takes=asking,
        )
        self._changes.make(None, made)
        if sent is not None:
            sent.note_passed(self._changes, made)
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


def _wait_for_others(rows: Rows, line: Iterable[Subscription | TakeWindow]) -> bool:
    """Return whether all these items were put aside for want of other subscribers than these."""
    able = {each.jid for each in line}
    return all(item.aside and able <= {item.avoid} for item, _ in rows)


def hands_out(node: Node | None) -> bool:
    """Return whether it is a queue whose items are being delivered."""
    return node is not None and node.config.queueing and not node.config.paused


# The payload sizes that subscribers can get: faces differ in how large a payload they can send.
#
# The limit of each face is compared with that of the node. Only if the node allows more, or a larger item was found, its
# subscribers and its items are examined one by one.

ALL: Final = 1 << 30


class Carrying:
    """The queues of one batch with items that some subscribers cannot have; `sizes` is the largest payload that any of them can have now."""

    def __init__(self, context: Context, changes: ChangeApplier) -> None:
        self._cache = context.rows.cache
        self._changes = changes
        self._least = context.least()
        self._largest_of = context.largest_of
        self.sizes: dict[NodeName, int] = {}
        self._lines: dict[NodeName, list[Subscription]] = {}

    def look(self, name: NodeName) -> None:
        """Determine the largest item that can be delivered from a queue now."""
        self.sizes.pop(name, None)
        node, cache = self._cache.nodes.get(name), self._cache
        windows = self._changes.windows(name)
        if node is None or windows is None:
            return
        if node.config.max_payload_size <= self._least and name not in cache.with_large:
            if name in cache.sizes:  # the node allowed more before
                self._note(name, None)
            return
        self._lines[name] = line = windows.first(ALL)
        jids = [each.jid for each in line] + [each.jid for each in self.takes(node, ALL)]
        largest = max(map(self._largest_of, jids), default=0)
        self.sizes[name] = largest
        self._note(name, largest)

    def _note(self, name: NodeName, largest: int | None) -> None:
        """Look from the beginning again if larger or smaller items are wanted than before."""
        cache = self._cache
        if cache.sizes.get(name) == largest:
            return
        cache.passed.pop(name, None)
        cache.idle.discard(name)
        cache.walks.pop(name, None)
        if largest is None:
            del cache.sizes[name]
        else:
            cache.sizes[name] = largest

    def meets_large(self, name: NodeName, rows: Rows) -> bool:
        """Return whether an item is larger than the node allows now, and than each face can send."""
        node = self._cache.nodes.get(name)
        if name in self.sizes or node is None or node.bytes <= self._least:
            return False
        if not any(len(payload) > self._least for _, payload in rows):
            return False
        self._cache.with_large.add(name)
        return True

    def leave_out(self, found: dict[NodeName, list[tuple[Item, bytes]]]) -> None:
        """Leave out items that no subscriber can have now; those of the store are left out by the store."""
        for name, size in self.sizes.items():
            if name in found:
                found[name] = [row for row in found[name] if len(row[1]) <= size]

    def line(self, name: NodeName, count: int) -> list[Subscription]:
        """Return up to `count` subscribers with room, the next first; all of them if some cannot get every item."""
        if name in self.sizes:
            return self._lines[name]
        windows = self._changes.windows(name)
        return [] if windows is None else windows.first(count)

    def takes(self, node: Node, count: int) -> list[TakeWindow]:
        """Return the waiting takes with room, likewise."""
        if not self._changes.takes:
            return []
        return self._changes.take_line(node, ALL if node.name in self.sizes else count)

    def carriers(
        self, name: NodeName, rows: Rows, line: Sequence[Subscription | TakeWindow]
    ) -> Mapping[int, frozenset[Jid]]:
        """Return, by the numbers of items that some subscribers cannot get, the subscribers that can."""
        if name not in self.sizes:
            return {}
        largest = {each.jid: self._largest_of(each.jid) for each in line}
        known: dict[int, frozenset[Jid]] = {}
        for item, payload in rows:
            if (size := len(payload)) > self._least:
                known[item.seq] = frozenset(jid for jid, most in largest.items() if most >= size)
        return known


# Gives turns: items of groups take their places in the order of ready items, if more of the group may be in flight.
#
# It runs for the groups that a batch has touched, within the batch: the removal of an item and the next item's turn are
# one commit. The store's rows of a group are merged with the batch's changes that are not written yet.


class _Group(Struct):
    """A group as it is in this batch: its current turns, and its waiting items."""

    limit: int
    turns: int = 0
    line: list[Item] = field(default_factory=list)
    gone: int = 0
    """Items that wait in the store, and no longer do."""
    is_ahead: bool = False
    """Whether it is sent ahead (`engine.ahead`)."""

    @property
    def room(self) -> int:
        return max(0, self.limit - self.turns)


def give_turns(context: Context, changes: ChangeApplier) -> None:
    """Let the next items of the touched groups take their turns, as many as their nodes allow in flight."""
    called, changes.groups = changes.groups, {}
    groups = _limits(context, called)
    sent_ahead = [key for key, group in groups.items() if group.is_ahead]
    if sent_ahead:
        ahead.give_turns(context, changes, sent_ahead)
        groups = {key: group for key, group in groups.items() if not group.is_ahead}
        changes.groups = {}
    if not groups:
        return
    _unwritten(changes, groups)
    tx, names = context.rows.tx, tuple(groups)
    for group, turns in zip(
        groups.values(), tx.page(GroupTurns(names), None, len(names)), strict=True
    ):
        group.turns += turns
    _load_lines(context, changes, groups)
    for key, group in groups.items():
        changes.begin_turns(key, next_turns(group.limit, group.turns, group.line))
    changes.groups = {}


def _limits(context: Context, called: dict[Group, None]) -> dict[Group, _Group]:
    """Return the groups that are in queues, with how many of each may be in flight."""
    rows = context.rows
    nodes = {name: rows.node(name) for name, _ in called}
    if rows.lacking:
        rows.load()
        nodes = {name: rows.node(name) for name in nodes}
    return {
        (name, group): _Group(node.config.group_limit, is_ahead=node.config.group_ahead)
        for name, group in called
        if (node := nodes[name]) is not None and node.config.queueing
    }


def _unwritten(changes: ChangeApplier, groups: dict[Group, _Group]) -> None:
    """Merge the batch's unwritten changes of the groups."""
    for before, now in changes.changed_items():
        if before is not None and (group := groups.get((before.node, before.group))) is not None:
            group.turns -= before.turn > 0
            group.gone += in_line(before)
        if now is not None and (group := groups.get((now.node, now.group))) is not None:
            group.turns += now.turn > 0
            if in_line(now):
                group.line.append(now)


def _load_lines(context: Context, changes: ChangeApplier, groups: dict[Group, _Group]) -> None:
    """Add the first waiting items of the store, as many as may be needed; groups of one length in one statement."""
    wanted: defaultdict[int, list[Group]] = defaultdict(list)
    for key, group in groups.items():
        if group.room:
            wanted[group.room + group.gone].append(key)
    for length, keys in wanted.items():
        for item in context.rows.tx.page(GroupLines(tuple(keys)), None, length):
            if not changes.has_changed(item.seq):
                groups[item.node, item.group].line.append(item)


# Deliveries that the next batches have to make in addition to items of the nodes that they change.


class PendingDispatch:
    """Remembers between batches which nodes are still to be examined. `is_on`: a subscriber can be reached."""

    def __init__(self) -> None:
        self.is_on = False
        self.rest: Sequence[NodeName] = ()
        """Nodes that may have more to deliver than the last batch could."""
        self.looked: Place | None = None
        """The position of a look around, None between two of them."""
        self._is_wanted = False

    def __bool__(self) -> bool:
        """Return whether a batch is due for it, even if there are no requests."""
        return bool(self._is_wanted or self.rest or self.looked is not None)

    def look_around(self) -> None:
        """Have every node examined, after the current look around."""
        self._is_wanted = True

    def take_look(self) -> bool:
        """Return whether the next batch looks around; call it once for that batch."""
        if self.looked is not None:
            return True
        wanted, self._is_wanted = self._is_wanted, False
        return wanted

    def stop(self) -> None:
        """Deliver nothing until `is_on` is set."""
        self.is_on = self._is_wanted = False
        self.rest, self.looked = (), None

    def committed(self, rest: Sequence[NodeName], looked: Place | None) -> None:
        """Note what a committed batch has left for the next one."""
        self.rest, self.looked = (rest, looked) if self.is_on else ((), None)

    def lost(self, *, look: bool) -> None:
        """Note that a batch failed; `look`: it was to look around."""
        self._is_wanted = self.is_on and (self._is_wanted or look)


# Requesters that wait for the answer to a take: until there are items, the wait is over, or the requester goes.
#
# The windows are in `working_set.open_windows`, where batches use them. The answers are kept here, on the event loop, so the
# end of a wait needs no batch. An item that is delivered to a window while its requester goes is released, without counting a
# failure.


class _Waiting(Struct):
    """A requester: whether its take is decided, and whether its wait is over.

    `holds` returns whether its login is still valid. With `crowded` it is refused if there is no item at once.
    """

    take: Take
    answer: Answer
    holds: Callable[[], bool]
    crowded: int | None = None
    is_decided: bool = False
    is_over: bool = False
    timer: TimerHandle | None = None


class WaitingTakers:
    """The requesters by the numbers of their takes."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._all: dict[int, _Waiting] = {}
        self._over: dict[int, None] = {}
        """Takes that are answered with the next commit, with or without items."""
        self._of_address: dict[Jid, dict[int, None]] = {}
        self._of_account: Counter[Jid] = Counter()

    def __contains__(self, number: object) -> bool:
        """Return whether the take still waits."""
        return number in self._all

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._all)

    def of(self, account: Jid) -> tuple[int, int]:
        """Return how many takes of the account wait, and how many in total."""
        return self._of_account[account], len(self._all)

    def number(self) -> int:
        """Return a number for a take."""
        return next(self._numbers)

    def add(
        self, take: Take, answer: Answer, holds: Callable[[], bool] = lambda: True
    ) -> tuple[Take, Answer]:
        """Add a take; return the request and the answer function to submit in its place."""
        if not take.number:
            take = replace(take, number=self.number())
        number, by = take.number, take.by
        one = self._all[number] = _Waiting(take, answer, holds)
        self._of_address.setdefault(by.jid, {})[number] = None
        self._of_account[by.account] += 1
        if take.wait:
            loop = asyncio.get_running_loop()
            one.timer = loop.call_later(take.wait / 1000, self._end_wait, number)
        else:
            one.is_over = True
        return take, partial(self._decided, number)

    def _decided(self, number: int, reply: Reply) -> None:
        """Answer a take that is refused; let any other one wait from now on."""
        one = self._all.get(number)
        if one is None:
            return
        if not isinstance(reply, Taken):
            self._answer(number, reply)
            return
        one.is_decided, one.crowded = True, reply.crowded
        if one.is_over or reply.crowded is not None:
            self._over[number] = None

    def _end_wait(self, number: int) -> None:
        one = self._all.get(number)
        if one is None:
            return
        one.is_over = True
        if one.is_decided:  # else it is answered with the batch that decides it
            self._answer(number, Taken(one.take.node))

    def withdraw(self, number: int) -> None:
        """End a take whose requester does not wait any more."""
        if (one := self._all.get(number)) is not None:
            self._answer(number, Taken(one.take.node))

    def judge_again(self) -> None:
        """End the takes whose logins are not valid any more."""
        for number, one in tuple(self._all.items()):
            if not one.holds():
                self._answer(number, Refused(Refusal.NOT_TRUSTED))

    def left(self, address: Jid) -> None:
        """End the takes of an address that has gone."""
        for number in tuple(self._of_address.get(address, ())):
            self.withdraw(number)

    def end(self) -> None:
        """Answer all takes: the service stops."""
        for number in tuple(self._all):
            self.withdraw(number)

    def committed(
        self,
        taken: Mapping[int, Sequence[Deliver]],
        ended: Mapping[int, Refusal],
        rest: Container[NodeName],
    ) -> list[Deliver]:
        """Answer takes that were served or ended in a batch; return the deliveries whose requesters have gone meanwhile.

        `rest` are the nodes that will be looked at again at once.
        """
        unwanted: list[Deliver] = []
        for number, deliveries in taken.items():
            one = self._all.get(number)
            if one is not None and one.holds():
                items = tuple((sent.item, sent.payload) for sent in deliveries)
                self._answer(number, Taken(deliveries[0].item.node, items))
                continue
            unwanted += deliveries
            if one is not None:
                self._answer(number, Refused(Refusal.NOT_TRUSTED))
        for number, refusal in ended.items():
            if number in self._all:
                self._answer(number, Refused(refusal))
        for number in tuple(self._over):
            one = self._all[number]
            if one.take.node in rest:
                continue
            if one.crowded is None:
                self.withdraw(number)
            else:
                self._answer(number, Refused(Refusal.TOO_MANY_WAITING, limit=one.crowded))
        return unwanted

    def _answer(self, number: int, reply: Reply) -> None:
        """Answer, and forget the requester."""
        one = self._all.pop(number)
        self._over.pop(number, None)
        address, account = one.take.by.jid, one.take.by.account
        del self._of_address[address][number]
        if not self._of_address[address]:
            del self._of_address[address]
        self._of_account[account] -= 1
        if not self._of_account[account]:
            del self._of_account[account]
        if one.timer is not None:
            one.timer.cancel()
        answer_with(one.answer, reply)
