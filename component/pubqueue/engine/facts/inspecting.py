"""Facts for operators: counts, workers, connections, samples."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pubqueue.engine import listings
from pubqueue.engine.facts.queue import AT_ONCE
from pubqueue.model.entities import account_of
from pubqueue.model.limits import limits
from pubqueue.model.replies import ServiceState, Worker
from pubqueue.rules import access, inspect
from pubqueue.rules.access import Action
from pubqueue.rules.asks import address
from pubqueue.rules.dead_letters import DEATHS_SLICE, ReasonFacts
from pubqueue.rules.survey import KeepFacts, SamplesFacts
from pubqueue.rules.unlock import Dismiss, FreeFacts, FreeHeld, FreeLocks

if TYPE_CHECKING:
    from pubqueue.engine.context import Context
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import (
        Item,
        ItemId,
        Jid,
        Node,
        NodeName,
        Principal,
        Subscription,
    )
    from pubqueue.model.replies import EventEntry
    from pubqueue.rules.dead_letters import ReadReasons
    from pubqueue.rules.survey import KeepSamples, ReadSamples


# Facts for operators of queues: the nodes they manage, the workers of a queue and their items, one item, the service.

MANAGERS: Final = access.holders_of(Action.MANAGE)

MAX_NAMED: Final = 100
"""Up to how many nodes are named to choose from."""

MAX_WORKERS: Final = 50
"""Workers in one answer."""

LOOKED_UP: Final = 2_000
"""Held items that are loaded for one answer; for further workers only the number of their items is returned."""

SUMMED: Final = 5_000
"""Nodes that are added up at a time."""

MAX_STEPS: Final = 500
"""Events of an item in one answer."""

SHOWN: Final = 10
"""Items that are named for each worker."""


def for_powers(context: Context, request: inspect.AskPowers) -> inspect.PowersFacts:
    """Return the first nodes that the principal manages."""
    rows, by = context.rows, request.by
    if by.admin:
        found = rows.page(listings.Nodes(), None, MAX_NAMED + 1)
    else:
        mine = rows.page(listings.NodesOfAccount(by.account, MANAGERS), None, MAX_NAMED + 1)
        found = [node for node, _ in mine]
    return inspect.PowersFacts(
        context.terms.policy, tuple(found[:MAX_NAMED]), len(found) > MAX_NAMED
    )


def for_workers(context: Context, request: inspect.ReadWorkers) -> inspect.WorkersFacts:
    """Return some of the subscribers, and the items of the node that they hold."""
    rows, by = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    if node is None or inspect.objection(by, node, affiliation) is not None:
        return inspect.WorkersFacts(node, affiliation)
    most = max(1, min(request.most or MAX_WORKERS, MAX_WORKERS))
    found = rows.page(listings.SubscriptionsOf(node.name), request.after, most + 1)
    workers = _with_what_they_hold(rows, found[:most])
    return inspect.WorkersFacts(node, affiliation, workers, len(found) > most)


def _with_what_they_hold(rows: WorkingSet, found: list[Subscription]) -> tuple[Worker, ...]:
    workers: list[Worker] = []
    looked_up = 0
    for one in found:
        looked_up += one.in_flight
        if looked_up > LOOKED_UP:
            workers.append(Worker(one, None))
            continue
        workers.append(Worker(one, tuple(_some_held(rows, one)) if one.in_flight else ()))
    return tuple(workers)


def _some_held(rows: WorkingSet, one: Subscription) -> list[ItemId]:
    held, more = rows.held_by(one.jid)
    if more:
        held = rows.page(listings.HeldBy(one.jid, one.node), None, SHOWN)
    return [item.id for item in held if item.node == one.node][:SHOWN]


def for_peek(context: Context, request: inspect.Peek) -> inspect.PeekFacts:
    """Return the item and its payload, if the principal may see it."""
    rows, by = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    if node is None or inspect.objection(by, node, affiliation) is not None:
        return inspect.PeekFacts(node, affiliation)
    item = _known(rows, node, request.id)
    shown = item is not None and not rows.is_damaged(item)
    payload = rows.payload(item) if item is not None and shown else b""
    return inspect.PeekFacts(node, affiliation, item, payload)


def for_history(context: Context, request: inspect.ReadHistory) -> inspect.HistoryFacts:
    """Return the item, and its next events here and in the node that it came from, if the principal may see them."""
    rows, by = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    if node is None or not _observes(context, by, node):
        return inspect.HistoryFacts(node, affiliation)
    item = _known(rows, node, request.id)
    limit = max(1, min(request.max or MAX_STEPS, MAX_STEPS))
    found = rows.page(listings.EventsOf(node.name, request.id), request.after, limit + 1)
    origin = _came_from(item, found)
    source = None if origin is None else rows.node(origin)
    if source is not None and _observes(context, by, source):
        found += rows.page(listings.EventsOf(source.name, request.id), request.after, limit + 1)
        found.sort(key=attrgetter("seq"))
    result = None if item is None else _result(context, by, item)
    return inspect.HistoryFacts(node, affiliation, item, tuple(found[: limit + 1]), limit, result)


def _known(rows: WorkingSet, node: Node, name: ItemId) -> Item | None:
    """Return the item of this id, or else the newest of those that are done and kept."""
    item = rows.item(node.name, name)
    if item is None and node.done:
        return next(iter(rows.page(listings.DoneNamed(node.name, name))), None)
    return item


def _result(context: Context, by: Principal, item: Item) -> tuple[Item, bytes] | None:
    """Return the reply to an item that was asked, if it is still kept where its author awaits it, and the principal may read there."""
    rows, where = context.rows, address(item.headers, item.publisher)
    if where is None or (place := rows.node(where[0])) is None:
        return None
    affiliation, subscribed = rows.rights(place.name, by.account)
    standing = access.standing_of(by, affiliation)
    if not access.may(standing, Action.RETRIEVE, place, subscribed=subscribed):
        return None
    reply = rows.item(*where)
    if reply is None or rows.is_damaged(reply):
        return None
    return reply, rows.payload(reply)


def _came_from(item: Item | None, found: list[EventEntry]) -> NodeName | None:
    """Return the node in which the item was before, if it died there."""
    if item is not None:
        return None if item.dead_letter is None else item.dead_letter.origin
    return next((entry.event.origin for entry in found if entry.event.origin is not None), None)


def _observes(context: Context, by: Principal, node: Node) -> bool:
    standing = access.standing_of(by, context.rows.affiliation(node.name, by.account))
    return access.may(standing, Action.OBSERVE, node)


def for_reasons(context: Context, request: ReadReasons) -> ReasonFacts:
    """Return the next dead items of the node, if the principal may manage it."""
    rows, by = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    if node is None or inspect.objection(by, node, affiliation) is not None:
        return ReasonFacts(node, affiliation)
    found = rows.page(listings.DeadItems(node.name), request.behind or None, DEATHS_SLICE)
    return ReasonFacts(node, affiliation, tuple(found))


def for_service(context: Context, request: inspect.AskService) -> inspect.ServiceFacts:
    """Return the state of this process, the number of nodes, and the storage of the next of them."""
    if not request.by.admin:
        return inspect.ServiceFacts(ServiceState(context.about(), context.now, 0))
    rows = context.rows.page(listings.NodeSums(), request.after, SUMMED) if request.summing else []
    last = rows[-1] if rows and sum(one.nodes for _, one in rows) == SUMMED else None
    nodes = (
        0 if last else sum(context.rows.page(listings.Total(listings.Nodes())))
    )  # once, at the end
    held_to = limits(
        context.terms.limits, context.terms.max_subscriptions, context.terms.quotas.usual
    )
    return inspect.ServiceFacts(
        ServiceState(context.about(), context.now, nodes, held_to, context.rounds()),
        tuple([holding for _, holding in rows]),
        None if last is None else (last[1].account, last[0]),
        context.terms.quotas,
        context.terms.operators | {context.service.account},
    )


def for_free(context: Context, request: FreeLocks | Dismiss) -> FreeFacts:
    """Return the items whose locks are to end, if the principal may end them."""
    rows, by = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    known = FreeFacts(context.now, node, affiliation)
    if node is None or inspect.objection(by, node, affiliation) is not None:
        return known
    if isinstance(request, FreeLocks):
        items = tuple(rows.item(node.name, item) for item in request.ids)
        return FreeFacts(context.now, node, affiliation, items)
    return _of_worker(rows, known, node.name, request.jid)


def _of_worker(rows: WorkingSet, known: FreeFacts, node: NodeName, jid: Jid) -> FreeFacts:
    """Return the items that the JID holds of the node, and whether it subscribes."""
    mine = [one.jid for one in rows.subscriptions_in(node, account_of(jid))]
    held = tuple(rows.page(listings.HeldBy(jid, node), None, AT_ONCE))
    last = held[-1].seq if len(held) == AT_ONCE else None
    unused = 0 if last is None else rows.unused_token()
    return FreeFacts(known.now, known.node, known.affiliation, held, jid in mine, last, unused)


def for_free_held(context: Context, request: FreeHeld) -> FreeFacts:
    """Return the next items of a node that a worker held."""
    rows = context.rows
    node = rows.node(request.node)
    held = tuple(rows.page(listings.HeldBy(request.jid, request.node), request.after, AT_ONCE))
    last = held[-1].seq if len(held) == AT_ONCE else None
    return FreeFacts(context.now, node, items=held, last=last)


# Facts about the connections of clients, which this process has in memory.

MAX_CONNECTIONS: Final = 100
"""Connections of one page."""


def for_connections(context: Context, request: inspect.ReadConnections) -> inspect.ConnectionsFacts:
    """Return the next connections; none if the principal may not see them."""
    if not request.by.admin:
        return inspect.ConnectionsFacts(context.now)
    most = min(request.most or MAX_CONNECTIONS, MAX_CONNECTIONS)
    found, total = context.clients(request, most + 1, context.now)
    return inspect.ConnectionsFacts(context.now, found[:most], total, len(found) > most)


def for_end(context: Context, request: inspect.EndConnection) -> inspect.EndFacts:
    """Return whether the connection is here."""
    return inspect.EndFacts(request.by.admin and context.is_connected(request.address))


# For samples: the moment, and the stored samples of the last hours.

MAX_SAMPLES: Final = 10_000
"""The maximum in one answer: fifty nodes for an hour, or one for all the time that is kept."""


def for_keep(context: Context, _request: KeepSamples) -> KeepFacts:
    """Return the moment."""
    return KeepFacts(context.now)


def for_read(context: Context, request: ReadSamples) -> SamplesFacts:
    """Return the requested samples."""
    if not request.by.admin:
        return SamplesFacts((), context.now)
    which = listings.Samples(request.nodes, request.since)
    return SamplesFacts(tuple(context.rows.page(which, None, MAX_SAMPLES)), context.now)
