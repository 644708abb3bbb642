"""Facts for reads: pages of events, items and nodes, up to the size of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.store.item_listings import Counted, ItemEntries, NewestItem, Stride, TooLarge
from pubqueue.app.store.listings import (
    AgedEvents,
    Events,
    LogEnds,
    NodeEntries,
    Nodes,
    NodesOfAccount,
)
from pubqueue.model import replies
from pubqueue.model.entities import Affiliation, Millis, State
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.audience import CROWD
from pubqueue.rules.dead_letters import matches
from pubqueue.rules.read import (
    TRIM_SLICE,
    Counting,
    NodeAccess,
    ReadFacts,
    TrimFacts,
    owns,
    readable,
)
from pubqueue.rules.survey import slice_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Node, NodeName, Principal
    from pubqueue.model.replies import ItemEntry
    from pubqueue.rules.read import ReadEvents, ReadItems, ReadNodes, Trim
    from pubqueue.rules.survey import ReadSurvey

MAX_EVENTS: Final = 1_000
MAX_ITEMS: Final = 500
MAX_NODES: Final = 50
"""The maximum in one answer, whatever is requested."""

SEARCHED: Final = 2_000
"""Nodes whose names are examined for one answer."""

SCANNED: Final = 20_000
"""Events of all nodes, or items in all states, that are looked at for one answer, so that none takes long."""

COUNTED: Final = 100_000
"""Up to how many items of the nodes are counted for one answer. A node that has more is on a page alone, and is counted in slices, between which other readers have their turn."""

OBSERVERS: Final = access.holders_of(Action.OBSERVE)
MANAGERS: Final = access.holders_of(Action.MANAGE)


def _log_ends(rows: WorkingSet) -> tuple[int, int]:
    return next(iter(rows.page(LogEnds())), (0, 0))


def for_events(context: Context, request: ReadEvents) -> ReadFacts:
    """Return events of the readable nodes."""
    rows = context.rows
    by, named = request.by, request.node
    nodes = _known(rows, by, None, 1) if named is None else _one(rows, by, named)
    if not readable(by, nodes):
        return ReadFacts(nodes, None)
    oldest, newest = _log_ends(rows)
    after = max(request.after, oldest - 1)
    end = newest if request.until is None else min(request.until, newest)
    until = min(end, after + SCANNED)
    limit = _bounded(request.max, MAX_EVENTS)
    names = None if named is None else (named,)
    mine = None if by.admin or named is not None else by.account
    found = rows.page(Events(names, until, mine, OBSERVERS), after, limit)
    through = found[-1].seq if len(found) == limit else max(until, request.after)
    page = replies.EventPage(tuple(found), oldest, newest, through, more=through < end)
    return ReadFacts(nodes, page)


def for_items(context: Context, request: ReadItems) -> ReadFacts:
    """Return items of a readable node."""
    rows = context.rows
    nodes = _one(rows, request.by, request.node)
    if not readable(request.by, nodes):
        return ReadFacts(nodes, None)
    dead = request.state is State.DEAD
    newest = next(iter(rows.page(NewestItem(request.node, dead))), 0)
    end = newest if request.until is None else min(request.until, newest)
    looked_at = end
    if request.state not in {None, State.DEAD}:
        far = rows.page(Stride(request.node), request.after, SCANNED)
        looked_at = min([end, *far])
    limit = _bounded(request.max, MAX_ITEMS)
    listing = ItemEntries(request.node, looked_at, request.state, request.payloads, request.room)
    if dead and request.reason:
        return ReadFacts(nodes, _of_reason(rows, request, listing, limit, newest))
    found = rows.page(listing, request.after, limit + 1)
    shown = tuple(found[:limit])
    more = len(found) > limit or _goes_on(rows, listing, shown)
    through = _number(shown[-1], dead=dead) if more else max(looked_at, request.after)
    more = more or looked_at < end
    done = sum(one.node.done for one in nodes) if request.state is None else 0
    return ReadFacts(
        nodes, replies.ItemPage(request.node, shown, newest, through, more, dead, done)
    )


def _of_reason(
    rows: WorkingSet, request: ReadItems, listing: ItemEntries, limit: int, newest: int
) -> replies.ItemPage:
    """Return those of the next dead items that have a reason, perhaps few or none."""
    found = rows.page(listing, request.after, MAX_ITEMS + 1)
    matching = [
        entry
        for entry in found[:MAX_ITEMS]
        if entry.item.dead_letter and matches(request.reason, entry.item.dead_letter.reason)
    ]
    shown, more = tuple(matching[:limit]), len(found) > MAX_ITEMS
    through = (
        _number(found[MAX_ITEMS - 1], dead=True) if more else max(listing.until, request.after)
    )
    if len(matching) > limit:
        more, through = True, _number(shown[-1], dead=True)
    return replies.ItemPage(request.node, shown, newest, through, more, dead=True)


def _goes_on(rows: WorkingSet, listing: ItemEntries, shown: tuple[ItemEntry, ...]) -> bool:
    """Return whether items follow that the store left out because the page was full."""
    if not shown or not listing.payloads:
        return False
    last = _number(shown[-1], dead=listing.state is State.DEAD)
    return bool(rows.page(replace(listing, payloads=False), last, 1))


def _number(shown: ItemEntry, *, dead: bool) -> int:
    """Return the number by which pages are ordered."""
    letter = shown.item.dead_letter
    return letter.number if dead and letter is not None else shown.item.seq


def for_read_nodes(context: Context, request: ReadNodes) -> ReadFacts:
    """Return readable nodes, with their counts."""
    rows, by = context.rows, request.by
    limit = _bounded(request.max, MAX_NODES)
    roles = MANAGERS if request.managed else OBSERVERS
    behind, through = _wanted(rows, request, limit + 1, roles)
    nodes = behind[:1] or _known(rows, by, None, 1, roles)
    if not (by.admin or readable(by, nodes)):
        return ReadFacts(nodes, None)
    owned = {known.node.name for known in behind if owns(by, known)}
    names = _countable(known.node for known in behind[:limit])
    counted = None
    if behind and behind[0].node.items > COUNTED:
        counting = _count_on(rows, names[0], request.counted)
        if counting.state is not None:
            return ReadFacts(nodes, None, then=replace(request, counted=counting))
        counted = counting.queued, counting.dead
    entries = rows.page(NodeEntries(names, counted), None, limit)
    shown = tuple(
        # the counts of a long node come from several moments, so those in neither state may seem to be fewer than
        # none
        replace(
            entry,
            delayed=max(0, entry.delayed),
            owned=entry.node.name in owned,
            rate=context.rate(entry.node.name),
            failing=context.failing(entry.node.name),
            too_large=_too_large(context, entry.node) if entry.queued else 0,
        )
        for entry in entries
    )
    more = len(behind) > len(names)
    if more or through is None:
        through = names[-1] if names else request.after
        page = replies.NodePage(shown, more=more, now=context.now, through=through)
    else:
        page = replies.NodePage(shown, more=True, now=context.now, through=through)
    return ReadFacts(nodes, page)


def _too_large(context: Context, node: Node) -> int:
    """Return how many items wait for a worker whose protocol can carry them, while other workers are available."""
    most = node.config.max_payload_size
    if not node.config.queueing or most <= context.least() or node.subscriptions > CROWD:
        return 0  # a crowd is not searched
    rows = context.rows
    there = (one.jid for one in rows.subscribers(node.name) if one.available)
    largest = max(map(context.largest_of, there), default=most)
    if most <= largest:
        return 0
    return next(iter(rows.page(TooLarge(node.name, largest))), 0)


def for_survey(context: Context, request: ReadSurvey) -> ReadFacts:
    """Return the next slice of nodes for a survey."""
    return for_read_nodes(context, slice_of(request))


def _wanted(
    rows: WorkingSet, request: ReadNodes, count: int, roles: tuple[Affiliation, ...]
) -> tuple[tuple[NodeAccess, ...], NodeName | None]:
    """Return the next of the requested nodes, and where the search for them ended if it ended early."""
    by, after = request.by, request.after
    if request.only is not None:
        names = sorted(name for name in set(request.only) if after is None or name > after)
        found = [known for name in names[:count] for known in _one(rows, by, name)]
        return tuple(found), None
    if not request.containing:
        return _known(rows, by, after, count, roles), None
    wanted = request.containing.casefold()
    looked_at = _known(rows, by, after, SEARCHED, roles)
    matching = tuple(known for known in looked_at if wanted in known.node.name.casefold())
    ended_early = len(looked_at) == SEARCHED and len(matching) < count
    return matching[:count], looked_at[-1].node.name if ended_early else None


def _countable(nodes: Iterable[Node]) -> tuple[NodeName, ...]:
    """Return the first of the nodes whose items can be counted for one answer."""
    names: list[NodeName] = []
    items = 0
    for node in nodes:
        items += node.items
        if names and items > COUNTED:
            break
        names.append(node.name)
    return tuple(names)


def _count_on(rows: WorkingSet, name: NodeName, so_far: Counting | None) -> Counting:
    """Count another slice of a node's items: first those that are queued, then the dead."""
    now = so_far if so_far is not None and so_far.node == name else Counting(name)
    if now.state is None:
        return now
    found, end = next(iter(rows.page(Counted(name, now.state), now.behind, SCANNED)), (0, None))
    queueing = now.state is State.QUEUED
    queued, dead = (found, 0) if queueing else (0, found)
    state = now.state if end is not None else State.DEAD if queueing else None
    return Counting(name, now.queued + queued, now.dead + dead, state, end)


def for_trim(context: Context, request: Trim) -> TrimFacts:
    """Return the ends of the log, and the last of its oldest events that is too old."""
    rows = context.rows
    aged = rows.page(AgedEvents(Millis(context.now - request.kept_for)), None, TRIM_SLICE)
    return TrimFacts(*_log_ends(rows), next(iter(aged), None))


def _known(
    rows: WorkingSet,
    by: Principal,
    after: NodeName | None,
    count: int,
    roles: tuple[Affiliation, ...] = OBSERVERS,
) -> tuple[NodeAccess, ...]:
    """Return the next nodes with which the principal has one of these affiliations, by name."""
    if by.admin:
        return tuple(
            NodeAccess(node, Affiliation.NONE) for node in rows.page(Nodes(), after, count)
        )
    mine = rows.page(NodesOfAccount(by.account, roles), after, count)
    return tuple(NodeAccess(node, role) for node, role in mine)


def _one(rows: WorkingSet, by: Principal, name: NodeName) -> tuple[NodeAccess, ...]:
    node = rows.node(name)
    if node is None:
        return ()
    return (NodeAccess(node, *rows.rights(name, by.account)),)


def _bounded(wanted: int | None, most: int) -> int:
    return most if wanted is None else max(1, min(wanted, most))
