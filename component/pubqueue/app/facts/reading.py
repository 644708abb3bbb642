"""For those who read from outside: pages of events, items and nodes, so large as an answer may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.facts.context import LARGEST_ANSWER
from pubqueue.app.facts.managing import all_nodes
from pubqueue.app.listings import AgedEvents, Events, ItemEntries, LogEnds, NewestItem, NodeEntries
from pubqueue.core.model import Millis, State
from pubqueue.core.reading import pages
from pubqueue.core.reading.read import NodeAccess, ReadFacts, owns, readable
from pubqueue.core.reading.trim import SLICE, TrimFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set import WorkingSet
    from pubqueue.core.model import Asker, NodeName
    from pubqueue.core.reading.pages import ItemEntry
    from pubqueue.core.reading.read import ReadEvents, ReadItems, ReadNodes
    from pubqueue.core.reading.trim import Trim

MOST_EVENTS: Final = 1_000
MOST_ITEMS: Final = 500
MOST_NODES: Final = 50
"""In one answer at most, whatever is asked for."""

SCANNED: Final = 20_000
"""Events that are looked at for one answer, of other nodes too: so that none takes long."""


def _log_ends(rows: WorkingSet) -> tuple[int, int]:
    return next(iter(rows.page(LogEnds())), (0, 0))


def for_events(context: Context, request: ReadEvents) -> ReadFacts:
    """Return events of the nodes that may be read."""
    rows = context.rows
    nodes = _all(rows, request.by) if request.node is None else _one(rows, request.by, request.node)
    may = readable(request.by, nodes)
    if not may:
        return ReadFacts(nodes, None)
    oldest, newest = _log_ends(rows)
    after = max(request.after, oldest - 1)
    end = newest if request.until is None else min(request.until, newest)
    until = min(end, after + SCANNED)
    limit = _bounded(request.max, MOST_EVENTS)
    everything = len(may) == len(nodes) and request.node is None
    names = None if everything else tuple(node.name for node in may)
    found = rows.page(Events(names, until), after, limit)
    through = found[-1].seq if len(found) == limit else max(until, request.after)
    page = pages.EventPage(tuple(found), oldest, newest, through, more=through < end)
    return ReadFacts(nodes, page)


def for_items(context: Context, request: ReadItems) -> ReadFacts:
    """Return items of a node that may be read."""
    rows = context.rows
    nodes = _one(rows, request.by, request.node)
    if not readable(request.by, nodes):
        return ReadFacts(nodes, None)
    dead = request.state is State.DEAD
    newest = next(iter(rows.page(NewestItem(request.node, dead))), 0)
    end = newest if request.until is None else min(request.until, newest)
    limit = _bounded(request.max, MOST_ITEMS)
    listing = ItemEntries(request.node, end, request.state, request.payloads, LARGEST_ANSWER)
    found = rows.page(listing, request.after, limit + 1)
    shown = tuple(found[:limit])
    more = len(found) > limit or _goes_on(rows, listing, shown)
    through = _number(shown[-1], dead=dead) if more else max(end, request.after)
    return ReadFacts(nodes, pages.ItemPage(request.node, shown, newest, through, more, dead))


def _goes_on(rows: WorkingSet, listing: ItemEntries, shown: tuple[ItemEntry, ...]) -> bool:
    """Say whether items stand behind these, which the store cut off for want of room."""
    if not shown or not listing.payloads:
        return False
    last = _number(shown[-1], dead=listing.state is State.DEAD)
    return bool(rows.page(replace(listing, payloads=False), last, 1))


def _number(shown: ItemEntry, *, dead: bool) -> int:
    """Return the number by which pages go."""
    letter = shown.item.dead_letter
    return letter.number if dead and letter is not None else shown.item.seq


def for_read_nodes(context: Context, request: ReadNodes) -> ReadFacts:
    """Return nodes that may be read, with their counts."""
    rows, by = context.rows, request.by
    nodes = _all(rows, by)
    may = readable(by, nodes)
    if not may:
        return ReadFacts(nodes, None)
    limit = _bounded(request.max, MOST_NODES)
    behind = [node for node in may if request.after is None or node.name > request.after]
    owned = {known.node.name for known in nodes if owns(by, known)}
    names = tuple(node.name for node in behind[:limit])
    entries = rows.page(NodeEntries(names), None, limit)
    shown = tuple(replace(entry, owned=entry.node.name in owned) for entry in entries)
    return ReadFacts(nodes, pages.NodePage(shown, more=len(behind) > limit))


def for_trim(context: Context, request: Trim) -> TrimFacts:
    """Return the ends of the log, and the last of its oldest events that is too old."""
    rows = context.rows
    aged = rows.page(AgedEvents(Millis(context.now - request.kept_for)), None, SLICE)
    return TrimFacts(*_log_ends(rows), next(iter(aged), None))


def _all(rows: WorkingSet, by: Asker) -> tuple[NodeAccess, ...]:
    return tuple(NodeAccess(node, affiliation) for node, affiliation in all_nodes(rows, by.account))


def _one(rows: WorkingSet, by: Asker, name: NodeName) -> tuple[NodeAccess, ...]:
    node = rows.node(name)
    if node is None:
        return ()
    return (
        NodeAccess(node, rows.affiliation(name, by.account), rows.subscribed(name, by.account)),
    )


def _bounded(wanted: int | None, most: int) -> int:
    return most if wanted is None else max(1, min(wanted, most))
