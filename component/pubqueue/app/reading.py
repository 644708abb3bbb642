"""Load for those who read from outside: pages, so large as an answer may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.core.model import Millis, State
from pubqueue.core.pages import Events, Items, Nodes
from pubqueue.core.reading import Known, ReadFacts, owns, readable
from pubqueue.core.trim import SLICE, TrimFacts

if TYPE_CHECKING:
    from pubqueue.app.facts import Context
    from pubqueue.app.ports import Transaction
    from pubqueue.core.model import Asker, NodeName
    from pubqueue.core.pages import Shown
    from pubqueue.core.reading import ReadEvents, ReadItems, ReadNodes
    from pubqueue.core.trim import Trim

MOST_EVENTS: Final = 1_000
MOST_ITEMS: Final = 500
MOST_NODES: Final = 50
"""In one answer at most, whatever is asked for."""

SCANNED: Final = 20_000
"""Events that are looked at for one answer, of other nodes too: so that none takes long."""

ROOM: Final = 196_608
"""Bytes of payload in one answer: servers refuse stanzas above 256 KiB."""


def for_events(context: Context, request: ReadEvents) -> ReadFacts:
    """Load events of the nodes that may be read."""
    tx = context.tx
    nodes = _all(tx, request.by) if request.node is None else _one(tx, request.by, request.node)
    may = readable(request.by, nodes)
    if not may:
        return ReadFacts(nodes, None)
    oldest, newest = tx.history.ends()
    after = max(request.after, oldest - 1)
    end = newest if request.until is None else min(request.until, newest)
    until = min(end, after + SCANNED)
    limit = _bounded(request.max, MOST_EVENTS)
    names = None if len(may) == len(nodes) and request.node is None else [n.name for n in may]
    rows = tx.history.events(names, after, until, limit)
    through = rows[-1].seq if len(rows) == limit else max(until, request.after)
    page = Events(tuple(rows), oldest, newest, through, more=through < end)
    return ReadFacts(nodes, page)


def for_items(context: Context, request: ReadItems) -> ReadFacts:
    """Load items of a node that may be read."""
    tx = context.tx
    nodes = _one(tx, request.by, request.node)
    if not readable(request.by, nodes):
        return ReadFacts(nodes, None)
    dead = request.state is State.DEAD
    newest = tx.history.newest(request.node, dead=dead)
    end = newest if request.until is None else min(request.until, newest)
    rows, more = tx.history.items(
        request.node,
        after=request.after,
        until=end,
        state=request.state,
        payloads=request.payloads,
        limit=_bounded(request.max, MOST_ITEMS),
        room=ROOM,
    )
    through = _number(rows[-1], dead=dead) if more else max(end, request.after)
    return ReadFacts(nodes, Items(request.node, tuple(rows), newest, through, more, dead))


def _number(shown: Shown, *, dead: bool) -> int:
    """Return the number by which pages go."""
    return shown.grave.seq if dead and shown.grave is not None else shown.item.seq


def for_read_nodes(context: Context, request: ReadNodes) -> ReadFacts:
    """Load nodes that may be read, with their counts."""
    tx, by = context.tx, request.by
    nodes = _all(tx, by)
    may = readable(by, nodes)
    if not may:
        return ReadFacts(nodes, None)
    limit = _bounded(request.max, MOST_NODES)
    behind = [node for node in may if request.after is None or node.name > request.after]
    owned = {known.node.name for known in nodes if owns(by, known)}
    shown = tuple(
        replace(tx.history.tally(node), owned=node.name in owned) for node in behind[:limit]
    )
    return ReadFacts(nodes, Nodes(shown, more=len(behind) > limit))


def for_trim(context: Context, request: Trim) -> TrimFacts:
    """Load the ends of the log."""
    history = context.tx.history
    before = Millis(context.now - request.kept_for)
    return TrimFacts(*history.ends(), history.aged(before, SLICE))


def _all(tx: Transaction, by: Asker) -> tuple[Known, ...]:
    return tuple(Known(node, tx.affiliation(node.name, by.bare)) for node in tx.nodes())


def _one(tx: Transaction, by: Asker, name: NodeName) -> tuple[Known, ...]:
    node = tx.node(name)
    if node is None:
        return ()
    return (Known(node, tx.affiliation(name, by.bare), tx.subscribed(name, by.bare)),)


def _bounded(wanted: int | None, most: int) -> int:
    return most if wanted is None else max(1, min(wanted, most))
