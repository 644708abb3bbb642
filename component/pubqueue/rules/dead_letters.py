"""Dead items: redrive, cancel, and why they have died."""

from __future__ import annotations

import re
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import RemoveItem, Revive
from pubqueue.model.decision import (
    Cancelled,
    Decision,
    Done,
    Read,
    Redriven,
    Refusal,
    Request,
    refuse,
)
from pubqueue.model.entities import State, account_of
from pubqueue.model.notices import Retracted
from pubqueue.model.replies import DeathCount, DeathPage, Power, ReasonCount, ReasonPage
from pubqueue.model.sums import DAMAGED, is_damaged
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.inspect import FOR, OWNERS, objection
from pubqueue.rules.publish import turned_away
from pubqueue.rules.room import left_in, slice_of
from pubqueue.rules.settle import Verb, judge, to_holders
from pubqueue.rules.unlock import absent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.model.entities import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Principal,
    )
    from pubqueue.rules.room import Allowance
    from pubqueue.rules.settle import SettleFacts


# Redrive: dead items are queued again, in the node they came from or in another.


class Redrive(Request, frozen=True, gc=False):
    """Redrive these dead items of the node, or all of them (None), to `to` or to the node they came from.

    With a `reason` (a pattern, `rules.dead_letters`) only those that died of it; then `after`, `looked`
    and `count` are sums of the steps before.
    """

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...] | None = None
    to: NodeName | None = None
    reason: str = ""
    after: int = 0
    looked: int = 0
    count: int = 0


class Candidate(Struct, frozen=True, gc=False):
    """An item to redrive, and whether its id is taken in the destination.

    For an item that goes to another node `size` and `space` are the bytes and the namespace of its
    payload.
    """

    item: Item
    taken: bool
    size: int = 1
    space: str = ""
    damaged: bool = False

    @property
    def origin(self) -> NodeName | None:
        """The node that it came from, if it died in another."""
        return self.item.dead_letter.origin if self.item.dead_letter else None


class RedriveFacts(Struct, frozen=True, gc=False):
    """The node, its dead, the requested ids that do not exist, and the destinations.

    With a reason, `looked` dead items were examined, up to the number `through`, and more may
    follow.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    candidates: tuple[Candidate, ...]
    missing: tuple[ItemId, ...]
    targets: Mapping[NodeName, tuple[Node, Affiliation]]
    looked: int = 0
    through: int = 0
    allowances: Mapping[NodeName, Allowance | None] = {}
    """Of the accounts that created the nodes that they may go to; None if they have no limits."""


class _Rooms:
    """How much more each node accepts, and each account that pays for some of them."""

    def __init__(self, facts: RedriveFacts) -> None:
        self._facts = facts
        self._nodes = {name: left_in(target) for name, (target, _) in facts.targets.items()}
        self._taken: dict[Jid, tuple[int, int]] = {}

    def take(self, item: Item, to: NodeName) -> Refusal | None:
        """Take room for the item in another node, or return why there is none."""
        if to == item.node:
            return None
        (room, left), allowance = self._nodes[to], self._facts.allowances.get(to)
        if (room is not None and room <= 0) or (left is not None and left < item.size):
            return Refusal.NODE_FULL
        if allowance is not None and self._is_another(allowance):
            account = allowance.holding.account
            items, size = self._taken.get(account, (0, 0))
            taken = items + 1, size + item.size
            if (no := allowance.refuses(*taken)) is not None:
                return no.refusal
            self._taken[account] = taken
        self._nodes[to] = (
            None if room is None else room - 1,
            None if left is None else left - item.size,
        )
        return None

    def _is_another(self, allowance: Allowance) -> bool:
        """Return whether another account pays for the item in its destination."""
        node = self._facts.node
        return node is None or node.creator != allowance.holding.account


def redrive(request: Redrive, facts: RedriveFacts) -> Decision:
    """Decide a redrive, for owners who may publish to the destinations.

    Named items go all or none. Without names, all possible ones go: not an item whose destination
    does not exist, is full, or already has its id. The counters restart at 0.
    """
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND)
    if facts.missing:
        return refuse(Refusal.ITEM_NOT_FOUND, absent(request.node, facts.missing))
    if request.to is not None and request.to not in facts.targets:
        return refuse(Refusal.NODE_NOT_FOUND)
    changes: list[Revive] = []
    rooms = _Rooms(facts)
    for candidate in facts.candidates:
        to = request.to or candidate.origin or candidate.item.node
        no = _obstacle(request, facts, candidate, to) or rooms.take(candidate.item, to)
        if no is None:
            changes.append(Revive(candidate.item, to))
        elif request.ids is not None:
            return refuse(no, _sentence(no, candidate.item, to))
    return _in_steps(request, facts, facts.node.name, tuple(changes))


def _in_steps(
    request: Redrive, facts: RedriveFacts, name: NodeName, changes: tuple[Revive, ...]
) -> Decision:
    """Continue at once with the next dead items that may have the reason, as many as one answer may have."""
    count, looked = request.count + len(changes), request.looked + facts.looked
    then = None
    if facts.through and looked < CANCEL_LOOKED_AT:
        then = replace(request, after=facts.through, looked=looked, count=count)
    return Decision(Redriven(name, count, facts.through), changes, then=then)


def _obstacle(
    request: Redrive, facts: RedriveFacts, candidate: Candidate, to: NodeName
) -> Refusal | None:
    """Return why an item cannot go there, or None."""
    dead = candidate.item.state is State.DEAD
    if candidate.item.state is State.LOCKED:
        return Refusal.ITEM_LOCKED
    if candidate.damaged or is_damaged(candidate.item):
        return Refusal.WRONG_PAYLOAD
    if not dead and (candidate.origin is None or to == candidate.item.node):
        return Refusal.ITEM_NOT_FOUND  # it lives
    if to == candidate.item.node:
        return None
    if to not in facts.targets:
        return Refusal.NODE_NOT_FOUND
    node, affiliation = facts.targets[to]
    if request.to is None and node.created > candidate.item.published:
        return (
            Refusal.NODE_NOT_FOUND
        )  # another account has taken the name of the node that it came from
    what = candidate.item, candidate.size, candidate.space
    no = turned_away(request.by, affiliation, node, *what, subscribed=False)
    if no is not None:
        return no.refusal
    return Refusal.ITEM_EXISTS if candidate.taken else None


def _sentence(no: Refusal, item: Item, to: NodeName) -> str:
    if no is Refusal.ITEM_NOT_FOUND:
        return f"item {item.id} is not dead"
    if no is Refusal.WRONG_PAYLOAD and is_damaged(item):
        return f"of item {item.id} {DAMAGED}: publish it again"
    return f"item {item.id} cannot go to {to}"


# Cancel: remove items from a queue before they are done, by their ids, or discard its dead items with a reason.
#
# The row *retract* of the table SETTLE decides which principals may cancel which items. An owner may cancel in
# any state; the holder of a locked item is notified, as after any retract by an owner (XEP-0254 2.3). The author
# of an item may cancel its own. Unlike a retract this does what is possible: ids that do not exist, perhaps
# because the work is done, are named in the answer.

CANCEL_SLICE: Final = 500
"""Dead items that are looked at in one step."""

CANCEL_LOOKED_AT: Final = 10_000
"""Dead items that are looked at for one answer, in steps between which other requests are served."""


class Cancel(Request, frozen=True, gc=False):
    """Remove those of these items that exist from the queue; with `dead`, only those that are dead.

    `count`, `held` and `missing` are those of the steps before.
    """

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]
    dead: bool = False
    count: int = 0
    held: int = 0
    missing: tuple[ItemId, ...] = ()


class Discard(Request, frozen=True, gc=False):
    """Remove dead items after the number `after` whose reasons match; `looked` and `count` are sums of the steps before."""

    by: Principal
    node: NodeName
    reason: str = ""
    after: int = 0
    looked: int = 0
    count: int = 0


class DiscardFacts(Struct, frozen=True, gc=False):
    """The node, and the next of its dead items."""

    node: Node | None
    affiliation: Affiliation
    items: tuple[Item, ...] = ()


def cancel(request: Cancel, facts: SettleFacts) -> Decision:
    """Decide which items are removed, in steps if they are large: each of up to so many bytes."""
    there = tuple(item for item in facts.items if item is not None)
    node = _open_to(request.by, facts, there)
    if isinstance(node, Decision):
        return node
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    found = tuple(item for item in there if is_dead(item) or not request.dead)
    known = {item.id for item in found}
    missing = (*request.missing, *(name for name in request.ids if name not in known))
    gone = slice_of(found)
    held = request.held + sum(item.state is State.LOCKED for item in gone)
    count, left = request.count + len(gone), {item.id for item in found[len(gone) :]}
    then = None
    if left:
        ids = tuple([name for name in request.ids if name in left])
        then = replace(request, ids=ids, count=count, held=held, missing=missing)
    notices = to_holders(Retracted, node.name, gone)
    reply = Cancelled(node.name, count, held, missing)
    return Decision(reply, tuple(map(RemoveItem, gone)), notices, then=then)


def _open_to(by: Principal, facts: SettleFacts, there: tuple[Item, ...]) -> Node | Decision:
    """Return the node if the principal may retract all of the items, otherwise the refusal."""
    if facts.node is not None and access.may(
        access.standing_of(by, facts.affiliation), Action.MANAGE, facts.node
    ):
        return facts.node  # it means to, whether or not it has held the items itself
    return judge(by, Verb.RETRACT, replace(facts, items=there) if there else facts)


def is_dead(item: Item) -> bool:
    """Return whether an item is dead, here or in its original node, and not locked."""
    return item.dead_letter is not None and item.state is not State.LOCKED


def discard(request: Discard, facts: DiscardFacts) -> Decision:
    """Decide a step: which of these dead items are removed, and whether another step follows at once."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    items = slice_of(facts.items)
    gone = tuple(item for item in items if is_of(request.reason, item))
    count, looked = request.count + len(gone), request.looked + len(items)
    more = len(facts.items) == CANCEL_SLICE or len(items) < len(facts.items)
    through = items[-1].seq if more else 0
    then = None
    if more and looked < CANCEL_LOOKED_AT:
        then = replace(request, after=through, looked=looked, count=count)
    reply = Cancelled(facts.node.name, count, through=through)
    return Decision(reply, tuple(map(RemoveItem, gone)), then=then)


def is_of(reason: str, item: Item) -> bool:
    """Return whether a dead item has died for this reason."""
    return item.dead_letter is not None and matches(reason, item.dead_letter.reason)


# Why the dead items of a node have died: reasons with their counts, the most frequent first.

DEATHS_SLICE: Final = 500
"""Dead items that are looked at in one step."""

DEATHS_LOOKED_AT: Final = 50_000
"""Dead items that are looked at for one answer, in steps between which other readers are served."""

MAX_SHAPES: Final = 500
"""Reasons that are counted separately; any further reason is counted under `*`."""

PAGE: Final = 50
"""Reasons in one answer."""


class ReadReasons(Read, frozen=True, gc=False):
    """Request the reasons after the reason `after`; `known` are the counts of the steps before, after the number `behind`."""

    node: NodeName
    after: str | None = None
    most: int | None = None
    known: tuple[ReasonCount, ...] = ()
    behind: int = 0
    looked: int = 0


class ReasonFacts(Struct, frozen=True, gc=False):
    """The node, and the next of its dead items."""

    node: Node | None
    affiliation: Affiliation
    items: tuple[Item, ...] = ()


def read_reasons(request: ReadReasons, facts: ReasonFacts) -> Decision:
    """Count a step, and answer after the last one."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    known, looked = _counted(request.known, facts.items), request.looked + len(facts.items)
    goes_on = len(facts.items) == DEATHS_SLICE
    ordered = sorted(known, key=lambda one: (-one.count, one.reason))
    reply = _page(request, facts.node.name, ordered, looked, whole=not goes_on)
    if not goes_on or looked >= DEATHS_LOOKED_AT:
        return Decision(reply)
    then = replace(request, known=known, behind=facts.items[-1].seq, looked=looked)
    return Decision(reply, then=then)


def _counted(known: tuple[ReasonCount, ...], items: tuple[Item, ...]) -> tuple[ReasonCount, ...]:
    """Return the counts including these items."""
    counts = {one.reason: one for one in known}
    for item in items:
        letter = item.dead_letter
        if letter is None:
            continue
        name = shape(letter.reason)
        if name not in counts and len(counts) >= MAX_SHAPES:
            name = ANY
        before = counts.get(name)
        if before is None:
            counts[name] = ReasonCount(name, 1, letter.at, letter.at)
        else:
            first, last = min(before.first, letter.at), max(before.last, letter.at)
            counts[name] = ReasonCount(name, before.count + 1, first, last)
    return tuple(counts.values())


def _page(
    request: ReadReasons, node: NodeName, ordered: list[ReasonCount], looked: int, *, whole: bool
) -> ReasonPage:
    at = next((n for n, one in enumerate(ordered, 1) if one.reason == request.after), 0)
    room = PAGE if request.most is None else max(1, min(request.most, PAGE))
    shown = tuple(ordered[at : at + room])
    return ReasonPage(node, shown, looked, more=len(ordered) > at + room, whole=whole)


# The dead items of all nodes that the principal manages, in groups by node and reason.
#
# Nodes are walked by name, and the dead items of each, a slice at a time with other readers in between. Only the groups are kept, so an
# answer is bounded, however many nodes and dead items there are.

MAX_GROUPS: Final = 1_000
"""Groups that are counted separately; any further death is counted under `*` of its node."""

GROUPS: Final = 200
"""Groups in one answer."""

MAX_WALKED: Final = 20_000
"""Nodes that are walked for one answer."""


@unique
class Order(StrEnum):
    """The order of groups of dead items."""

    COUNT = "count"
    """The most dead items first."""
    REASON = "reason"
    QUEUE = "queue"
    AGE = "age"
    """The oldest death first."""
    WORKER = "worker"
    """By the account that held the items last, which are then groups of their own."""


# fmt: off
_PLACES: Final[dict[Order, Callable[[DeathCount], tuple[object, ...]]]] = {
    Order.COUNT:  lambda one: (-one.count, one.node, one.reason),
    Order.REASON: lambda one: (one.reason, -one.count, one.node),
    Order.QUEUE:  lambda one: (one.node, -one.count, one.reason),
    Order.AGE:    lambda one: (one.first, one.node, one.reason),
    Order.WORKER: lambda one: (one.worker or "", -one.count, one.node, one.reason),
}
# fmt: on


class ReadDeaths(Read, frozen=True, gc=False):
    """Request groups of dead items after the first `after`: of nodes with `containing` in their names, or of the node `only`, and of a `reason`.

    `known` are the groups of the steps before; these have walked `walked` nodes up to `at`, and of that node the items up to `behind`.
    """

    order: Order = Order.COUNT
    containing: str = ""
    only: NodeName | None = None
    reason: str = ""
    after: int = 0
    most: int | None = None
    at: NodeName | None = None
    behind: int = 0
    known: tuple[DeathCount, ...] = ()
    looked: int = 0
    walked: int = 0


class DeathsFacts(Struct, frozen=True, gc=False):
    """The next dead items, and where the step ended: the node and the number there; None at the end of all nodes.

    `manages` is whether the principal manages any node at all.
    """

    manages: bool
    items: tuple[Item, ...] = ()
    walked: int = 0
    place: tuple[NodeName, int] | None = None


def read_deaths(request: ReadDeaths, facts: DeathsFacts) -> Decision:
    """Count a step, and answer after the last one."""
    if not (request.by.admin or facts.manages):
        return refuse(Refusal.FORBIDDEN, FOR[Power.NODES])
    known = _grouped(request, facts.items)
    looked, walked = request.looked + len(facts.items), request.walked + facts.walked
    if facts.place is not None and looked < DEATHS_LOOKED_AT and walked < MAX_WALKED:
        at, behind = facts.place
        words = {"known": known, "looked": looked, "walked": walked}
        return Decision(Done(), then=replace(request, at=at, behind=behind, **words))
    ordered = sorted(known, key=_PLACES[request.order])
    room = GROUPS if request.most is None else max(1, min(request.most, GROUPS))
    shown = tuple(ordered[request.after : request.after + room])
    through = request.after + len(shown)
    page = DeathPage(
        shown,
        sum(one.count for one in known),
        len({one.node for one in known}),
        through,
        more=through < len(ordered),
        whole=facts.place is None,
    )
    return Decision(page)


def _grouped(request: ReadDeaths, items: tuple[Item, ...]) -> tuple[DeathCount, ...]:
    """Return the groups including these items."""
    groups = {(one.node, one.reason, one.worker): one for one in request.known}
    for item in items:
        letter = item.dead_letter
        if letter is None or not matches(request.reason, letter.reason):
            continue
        is_told = request.order is Order.WORKER and letter.holder is not None
        worker = account_of(letter.holder) if is_told and letter.holder else None
        key = item.node, shape(letter.reason), worker
        if key not in groups and len(groups) >= MAX_GROUPS:
            key = item.node, ANY, None
        before = groups.get(key) or DeathCount(*key, 0, letter.at, letter.at)
        first, last = min(before.first, letter.at), max(before.last, letter.at)
        groups[key] = DeathCount(*key, before.count + 1, first, last)
    return tuple(groups.values())


# Reasons of deaths, grouped if they differ in numbers and ids only.
#
# A shape is a reason with `*` for the parts that vary from item to item. As a pattern it matches the
# reasons that it was made from. So a shape from a list of reasons can be used in a request to select
# its items.

MAX_SHAPE_LENGTH: Final = 200
"""Characters of a shape; longer ones are cut."""

ANY: Final = "*"

_VARIES: Final = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|\b0x[0-9a-fA-F]+"
    r"|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"
    r"|[0-9]+(?:[.:,][0-9]+)*"
)
_AGAIN: Final = re.compile(r"\*{2,}")


def shape(reason: str) -> str:
    """Return the first line of a reason with `*` for each number and id in it."""
    first, line, _ = reason.partition("\n")
    found = _VARIES.sub(ANY, first) + (ANY if line else "")
    if len(found) > MAX_SHAPE_LENGTH:
        found = found[:MAX_SHAPE_LENGTH] + ANY
    return _AGAIN.sub(ANY, found) or ANY


def matches(pattern: str, reason: str) -> bool:
    """Return whether a reason matches a pattern, in which `*` stands for any text; an empty pattern matches all."""
    if not pattern:
        return True
    first, *parts = pattern.split(ANY)
    if not parts:
        return reason == first
    last = parts.pop()
    at, end = len(first), len(reason) - len(last)
    if end < at or not reason.startswith(first) or not reason.endswith(last):
        return False
    for part in parts:
        at = reason.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
