"""Reads for operators: queues, and connections of clients to the service itself."""

from __future__ import annotations

from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import replies
from pubqueue.model.decision import Decision, Done, Read, Refusal, Request, refuse
from pubqueue.model.entities import Millis
from pubqueue.model.records import QUOTAS, Event, EventKind
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.room import Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pubqueue.model.entities import (
        Affiliation,
        Finish,
        Item,
        ItemId,
        Jid,
        Node,
        NodeName,
        Principal,
    )
    from pubqueue.model.records import Holding, Quotas
    from pubqueue.rules.access import CreationPolicy


# Reads for operators of queues: their rights, the workers of a queue, one of its items, and the service itself.
#
# They are for owners of the node in question, and for administrators of the service; all others are
# refused.

FOR: Final = {
    replies.Power.SERVICE: "only administrators of the service may do this",
    replies.Power.NODES: "only owners of nodes and administrators of the service may do this",
    replies.Power.CREATE: "only accounts that own nodes and may create others may do this",
}
"""Which accounts each power is for, in words."""

NEAREST: Final = 5
"""Up to how many of the accounts that are nearest to their limits are named."""

NEAR: Final = 0.9
"""From this share on an account is near its limit."""

OBSERVERS: Final = "reading is for owners and publishers of a node"

LED_PAST: Final = "its queue was led past it"

OWNERS: Final = "only the node's owners and administrators of the service may do this"


class AskPowers(Read, frozen=True, gc=False):
    """Request the principal's powers; with `needed`, only if that is among them."""

    needed: replies.Power | None = None


class PowersFacts(Struct, frozen=True, gc=False):
    """The first nodes that the principal manages, by name, and which accounts may create any."""

    policy: CreationPolicy
    nodes: tuple[Node, ...]
    more: bool


class ReadWorkers(Read, frozen=True, gc=False):
    """Request up to `most` subscribers of the node after the JID `after`, and the items they hold."""

    node: NodeName
    after: Jid | None = None
    most: int | None = None


class WorkersFacts(Struct, frozen=True, gc=False):
    """The node, and some of its subscribers."""

    node: Node | None
    affiliation: Affiliation
    workers: tuple[replies.Worker, ...] = ()
    more: bool = False


class Peek(Read, frozen=True, gc=False):
    """Look at one item of the node. That takes nothing and extends nothing."""

    node: NodeName
    id: ItemId


class PeekFacts(Struct, frozen=True, gc=False):
    """The node and the item."""

    node: Node | None
    affiliation: Affiliation
    item: Item | None = None
    payload: bytes = b""


class ReadHistory(Read, frozen=True, gc=False):
    """Request what happened to an item of the node, after the event `after`."""

    node: NodeName
    id: ItemId
    after: int = 0
    max: int | None = None


class HistoryFacts(Struct, frozen=True, gc=False):
    """The node, the item if it is there, or done and kept, and its events: in this node, and in the one that it came from if that may be read.

    There are at most `limit` of them, or one more if further ones follow. `result` is the reply to it, if that may be read.
    """

    node: Node | None
    affiliation: Affiliation
    item: Item | None = None
    events: tuple[replies.EventEntry, ...] = ()
    limit: int = 0
    result: tuple[Item, bytes] | None = None


class AskService(Read, frozen=True, gc=False):
    """Request the state of the service.

    The storage of accounts is added up in slices: after `after`, an account and a number of a node.
    `known` are the sums so far, and `going_on` is the sum of the last account so far.
    """

    summing: bool = True
    """Whether to add up the storage: a client that polls every few seconds does not need it."""
    after: tuple[Jid, int] | None = None
    known: replies.Kept = replies.Kept()
    going_on: Holding | None = None


class ServiceFacts(Struct, frozen=True, gc=False):
    """The state, with the next accounts and their storage; more of the first ones may follow `after`; None at the end.

    `quotas` are their limits, except for `exempt`, which have none.
    """

    state: replies.ServiceState
    holdings: tuple[Holding, ...] = ()
    after: tuple[Jid, int] | None = None
    quotas: Quotas = QUOTAS
    exempt: frozenset[Jid] = frozenset()


def objection(by: Principal, node: Node | None, affiliation: Affiliation) -> Refusal | None:
    """Return why the principal may not oversee the node, or None."""
    if node is None:
        return Refusal.NODE_NOT_FOUND
    manages = access.may(access.standing_of(by, affiliation), Action.MANAGE, node)
    return None if manages else Refusal.FORBIDDEN


def ask_powers(request: AskPowers, facts: PowersFacts) -> Decision:
    """Return the principal's rights: operating nodes requires owning one, or administering the service."""
    by = request.by
    runs = by.admin or bool(facts.nodes)
    held = {
        replies.Power.SERVICE: by.admin,
        replies.Power.NODES: runs,
        replies.Power.CREATE: runs and access.may_create(by, facts.policy),
    }
    if request.needed is not None and not held[request.needed]:
        return refuse(Refusal.FORBIDDEN, FOR[request.needed])
    powers = tuple(power for power, has in held.items() if has)
    return Decision(replies.Powers(powers, facts.nodes, facts.more))


def read_workers(request: ReadWorkers, facts: WorkersFacts) -> Decision:
    """Decide whether the principal may see the workers of the node."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    return Decision(replies.WorkerPage(facts.node, facts.workers, facts.more))


def peek(request: Peek, facts: PeekFacts) -> Decision:
    """Decide whether the principal may see the item."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    if facts.item is None:
        return refuse(Refusal.ITEM_NOT_FOUND, f"there is no item {request.id} in {request.node}")
    return Decision(replies.Peeked(facts.node.name, facts.item, facts.payload))


def read_history(request: ReadHistory, facts: HistoryFacts) -> Decision:
    """Decide whether the principal may know what happened to the item.

    The item itself records what is not in a log: that its node keeps none, or has forgotten the first events.
    """
    node, standing = facts.node, access.standing_of(request.by, facts.affiliation)
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND, f"there is no node {request.node}")
    if not access.may(standing, Action.OBSERVE, node):
        return refuse(Refusal.FORBIDDEN, OBSERVERS)
    events, more = facts.events[: facts.limit], len(facts.events) > facts.limit
    if facts.item is None and not events and not request.after:
        log = "no event of it in its log" if node.config.event_log else "it keeps no event log"
        why = f"there is no item {request.id} in {request.node}, and {log}"
        return refuse(Refusal.ITEM_NOT_FOUND, why)
    untold = () if facts.item is None or request.after else steps_of(facts.item)
    if events:
        is_told = events[0].event.kind is EventKind.PUBLISHED
        untold = () if is_told else untold[:1]
    through = events[-1].seq if events else request.after
    steps = (*untold, *events)
    return Decision(
        replies.History(node, request.id, facts.item, steps, through, more, facts.result)
    )


def steps_of(item: Item) -> tuple[replies.EventEntry, ...]:
    """Return what an item itself records of its life, in order: its publication, its last delivery, and its death or how it was done."""
    letter = item.dead_letter
    origin = item.node if letter is None or letter.origin is None else letter.origin
    steps = [(item.published, Event(EventKind.PUBLISHED, origin, item.id))]
    if (finish := item.finish) is not None:
        steps += _of_finish(item, finish)
    elif item.taken is not None:
        before = letter is not None and item.taken <= letter.at
        who = letter.holder if letter is not None and before else item.holder or item.avoid
        steps.append(
            (item.taken, Event(EventKind.DELIVERED, item.node, item.id, item.acquired, who))
        )
    if letter is not None:
        death = Event(EventKind.DEAD, item.node, item.id, worker=letter.holder)
        steps.append((letter.at, replace(death, origin=letter.origin, detail=letter.reason)))
    steps.sort(key=itemgetter(0))
    by = item.publisher
    return tuple(replies.EventEntry(0, at, replace(one, publisher=by)) for at, one in steps)


def _of_finish(item: Item, finish: Finish) -> Iterator[tuple[Millis, Event]]:
    if finish.worker is None and (
        item.acquired or not item.token
    ):  # else a version that did not note the worker has kept it
        yield finish.at, Event(EventKind.RETRACTED, item.node, item.id, detail=LED_PAST)
        return
    who = item.acquired or None, finish.worker
    if finish.delivered is not None:
        yield finish.delivered, Event(EventKind.DELIVERED, item.node, item.id, *who)
    held = None if finish.delivered is None else Millis(max(0, finish.at - finish.delivered))
    yield finish.at, Event(EventKind.COMPLETED, item.node, item.id, *who, held=held)


def ask_service(request: AskService, facts: ServiceFacts) -> Decision:
    """Decide whether the principal may know of the service."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR[replies.Power.SERVICE])
    whole = [request.going_on] if request.going_on is not None else []
    for holding in facts.holdings:
        if whole and whole[-1].account == holding.account:
            whole[-1] = whole[-1].more(holding.nodes, holding.items, holding.bytes)
        else:
            whole.append(holding)
    going_on = whole.pop() if whole and facts.after is not None else None
    known = _with(request.known, whole, facts)
    if facts.after is not None:
        return Decision(Done(), then=AskService(request.by, True, facts.after, known, going_on))  # noqa: FBT003  # it goes on
    return Decision(replace(facts.state, quota=facts.quotas.usual, kept=known))


def _with(known: replies.Kept, holdings: Sequence[Holding], facts: ServiceFacts) -> replies.Kept:
    """Return the storage including these accounts."""
    full = [
        Allowance(holding, facts.quotas.of(holding.account)).fullness()
        for holding in holdings
        if holding.account not in facts.exempt
    ]
    return replies.Kept(
        known.accounts + len(holdings),
        known.items + sum(one.items for one in holdings),
        known.bytes + sum(one.bytes for one in holdings),
        known.near + sum(one.share >= NEAR for one in full),
        tuple(nlargest(NEAREST, (*known.nearest, *full), key=lambda one: one.share)),
    )


# The connections of clients to the service itself: an administrator lists them, and ends one.
#
# They are those of one process: connections are not rows, and another process has its own.


class ReadConnections(Read, frozen=True, gc=False):
    """Request up to `most` connections of clients, of one account, or of those subscribed to a node, by address after `after`."""

    account: Jid | None = None
    after: Jid | None = None
    most: int | None = None
    node: NodeName | None = None


class ConnectionsFacts(Struct, frozen=True, gc=False):
    """The next connections, and how many there are in total; `more` follow."""

    now: Millis
    clients: tuple[replies.ClientState, ...] = ()
    total: int = 0
    more: bool = False


class EndConnection(Request, frozen=True, gc=False):
    """End the connection of this address: its items are released, without a failure."""

    by: Principal
    address: Jid


class EndFacts(Struct, frozen=True, gc=False):
    """Whether this process has the connection."""

    is_here: bool


def read_connections(request: ReadConnections, facts: ConnectionsFacts) -> Decision:
    """Return the connections, for administrators of the service."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR[replies.Power.SERVICE])
    return Decision(replies.ConnectionPage(facts.clients, facts.total, facts.now, facts.more))


def end_connection(request: EndConnection, facts: EndFacts) -> Decision:
    """Decide whether the connection ends; its process ends it after the commit, and then its locks are released."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR[replies.Power.SERVICE])
    return Decision(replies.ConnectionEnded(request.address, facts.is_here))
