"""Joins: who may add a member, what becomes of a join as its members end, and who may close it.

A join waits for a member as long as that is in a queue of the service and is not done. That one rule is about every way in which an item can
end: `passed` compares the rows before and after a change, and the batch applies it to each change of each request, in its commit.

| a member | is to the join |
| --- | --- |
| is retracted by its worker, or cancelled by its author or an owner | gone: it counts |
| is ended by a seek, dropped by its lifetime or a limit, or swept with its purged or deleted queue | gone: it counts |
| gets another payload, is moved or delayed, is held itself | still to come |
| dies, there or into a dead-letter node | still to come, and dead |
| is redriven | still to come, and no longer dead |
| is discarded while it is dead, or retracted in a dead-letter node | gone: it counts |
| was done, and is brought back by a seek | a member no more: it has counted |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model import changes as c
from pubqueue.model.decision import (
    DecidedInParts,
    Decision,
    Done,
    Refusal,
    Refused,
    Request,
    refuse,
)
from pubqueue.model.entities import Millis, State
from pubqueue.model.joins import MAX_MEMBERS, JoinDead, Tally
from pubqueue.model.sums import DAMAGED
from pubqueue.rules.access import no_way_to_item
from pubqueue.rules.publication import PLACES, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue.model.entities import Draft, Item, ItemId, Node, NodeName, Principal
    from pubqueue.model.joins import Join
    from pubqueue.model.transactions import Orphan
    from pubqueue.rules.publication import JoinMet, Publish, PublishFacts
    from pubqueue.rules.waits import SignalFacts

    Ways = Mapping[tuple[NodeName, ItemId], JoinMet]
    """The joins that a publish names."""

GONE: Final = Tally(gone=1)
GONE_DEAD: Final = Tally(gone=1, revived=1)


# What a change of a member is to its join.


def passed(before: Item | None, now: Item | None) -> Tally:
    """Return what has happened to a member, by its rows; one that is done, or in no queue, is a member no more."""
    was_dead = before is not None and before.dead_letter is not None
    if now is None or not now.joins:
        return GONE_DEAD if was_dead else GONE
    is_dead = now.dead_letter is not None
    return Tally(
        added=int(before is None),
        died=int(is_dead and not was_dead),
        revived=int(was_dead and not is_dead),
    )


def swept(orphan: Orphan) -> Tally:
    """Return the same for a member whose queue was purged or deleted."""
    return GONE_DEAD if orphan.is_dead else GONE


class Met(Struct, frozen=True, gc=False):
    """A join, its node, and what has happened to its members. Nothing becomes of an item that is gone, or not a join."""

    item: Item | None
    node: Node | None
    tally: Tally


class CountMembers(Struct, frozen=True, gc=False):
    """Stands for the request, in the event log and for observers: the service itself counts."""


def count(met: Iterable[Met], now: Millis) -> tuple[c.Count, ...]:
    """Return what becomes of joins: with the last of its members a closed one is woken."""
    found = (counted(one, now) for one in met)
    return tuple([one for one in found if one is not None])


def counted(one: Met, now: Millis) -> c.Count | None:
    """Return what becomes of a join, None if nothing does."""
    item, node = one.item, one.node
    if item is None or node is None or item.wait is None or item.wait.join is None:
        return None
    join, policy = item.wait.join.after(one.tally), node.config.join_dead
    is_held = item.state is State.HELD
    if is_held and join.is_complete(policy):
        return c.Count(item, join, wakes=True)
    fails = is_held and policy is JoinDead.FAIL and join.dead > 0
    if fails and (item.due is None or item.due > now):
        return c.Count(item, join, fails=now)
    return None if join == item.wait.join else c.Count(item, join)


def with_counts(request: object, decision: Decision, counts: tuple[c.Count, ...]) -> Decision:
    """Return the decision together with what becomes of joins, as a part of its own."""
    parts = decision.parts if isinstance(decision, DecidedInParts) else ((request, decision),)
    its = Decision(Done(), counts)
    return DecidedInParts(
        decision.reply,
        (*decision.changes, *counts),
        decision.notices,
        decision.then,
        decision.work + len(counts),
        decision.beside,
        (*parts, (CountMembers(), its)),
    )


# A publish of members.

NO_MEMBER: Final = "item {} is there, and does not count for this join"
NOT_HELD: Final = "item {} is there, and is not held"
NO_JOIN: Final = "item {} is no join"
WHO: Final = "the join: publishers and owners of its node, and its author, may add members"


def admitted(request: Publish, facts: PublishFacts) -> Refused | dict[ItemId, int]:
    """Refuse a publish for a held item or a member in it that cannot be one; or return the numbers of the joins by the ids of new members."""
    numbers: dict[ItemId, int] = {}
    for draft, (known, item) in zip(request.drafts, facts.existing, strict=True):
        place = PLACES[known, None if item is None else item.state]
        if draft.hold is not None and place is Place.REPLACE:
            return Refused(Refusal.ITEM_EXISTS, NOT_HELD.format(draft.id))
        if draft.joins is None:
            continue
        way = facts.joins[draft.joins.place]
        if (no := _objection(draft, place, item, request.by, way)) is not None:
            return no
        if place is Place.ADD:
            join = way.item
            if (no := _not_open(draft.joins.id, join, len(numbers))) is not None or join is None:
                return no or Refused(Refusal.ITEM_NOT_FOUND)
            numbers[draft.id] = join.seq
    return numbers


def _objection(
    draft: Draft, place: Place, item: Item | None, by: Principal, way: JoinMet
) -> Refused | None:
    """Refuse a publisher that may not signal the join, first: it is to learn nothing of it. `item` is there under the id, and has to be a member.

    What has been a member already is repeated without that right: the join of its author may be gone, and with it the author's right.
    """
    no = _no_way_to(by, way)
    if place is Place.LEAVE and (item is None or (no is not None and item.joins != 0)):
        return None
    if no is not None:
        return Refused(no, WHO)
    if item is None:
        return None
    is_member = item.joins != 0 if way.item is None else item.joins == way.item.seq
    return None if is_member else Refused(Refusal.ITEM_EXISTS, NO_MEMBER.format(draft.id))


def _no_way_to(by: Principal, join: JoinMet) -> Refusal | None:
    return no_way_to_item(by, join.node, join.affiliation, join.item)


def _not_open(name: ItemId, item: Item | None, added: int) -> Refused | None:
    """Refuse a new member of what is no join, or no longer open, or has no room beside `added` other ones of this publish."""
    if item is None:
        return Refused(Refusal.ITEM_NOT_FOUND, f"the join {name} does not exist")
    if item.wait is not None and item.wait.damaged:
        return Refused(Refusal.STORE_FAILED, DAMAGED)
    join = None if item.wait is None else item.wait.join
    if join is None:
        return Refused(Refusal.PRECONDITION_NOT_MET, NO_JOIN.format(name))
    if item.state is State.DEAD or not join.is_open:
        why = "closed" if item.state is not State.DEAD else "dead"
        return Refused(Refusal.PRECONDITION_NOT_MET, f"the join {name} is {why}")
    if join.total + added >= MAX_MEMBERS:
        return Refused(Refusal.TOO_MANY_SIGNALS, f"a join has up to {MAX_MEMBERS} members")
    return None


def closings(drafts: Sequence[Draft], by: Principal, ways: Ways) -> list[c.Change]:
    """Return how the joins are closed of which the publish has the last members; a repeated one closes nothing twice."""
    last = {one.joins.place for one in drafts if one.joins is not None and one.joins.last}
    items = [ways[place].item for place in sorted(last) if _no_way_to(by, ways[place]) is None]
    return [c.CloseJoin(item) for item in items if item is not None and _is_open(item)]


def _is_open(item: Item) -> bool:
    join: Join | None = None if item.wait is None else item.wait.join
    return join is not None and join.is_open


# A join is closed: no members are added any more.


class Close(Request, frozen=True, gc=False):
    """Add no more members to a join; with those that it has it is complete. It may be repeated."""

    by: Principal
    node: NodeName
    id: ItemId


def close(request: Close, facts: SignalFacts) -> Decision:
    """Decide whether the join is closed. The right is that to signal it."""
    no = no_way_to_item(request.by, facts.node, facts.affiliation, facts.item)
    if no is not None:
        return refuse(no)
    item = facts.item
    if item is None:
        return refuse(Refusal.ITEM_NOT_FOUND)
    if item.wait is not None and item.wait.damaged:
        return refuse(Refusal.STORE_FAILED, DAMAGED)
    if item.wait is None or item.wait.join is None:
        return refuse(Refusal.PRECONDITION_NOT_MET, NO_JOIN.format(item.id))
    # also if it is closed: it is looked at again, after its queue's settings have changed
    return Decision(Done(), (c.CloseJoin(item),))
