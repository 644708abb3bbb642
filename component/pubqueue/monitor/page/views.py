"""The contents of each page: read from the core, one page at a time, and prepared for the templates."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import replies
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Item, Jid, Millis, NodeName, State
from pubqueue.model.records import KEPT, SLOT, Sample, SamplePage, slot_of
from pubqueue.monitor.asking import RefusedError
from pubqueue.monitor.page import plots
from pubqueue.operations import nodes
from pubqueue.operations.items import ALL, ITEMS, NUMBER
from pubqueue.operations.nodes import node_of
from pubqueue.operations.pretty import Shown, shown
from pubqueue.operations.searching import ANY, place_in_words
from pubqueue.rules.dead_letters import Order, ReadDeaths, ReadReasons
from pubqueue.rules.discovery import Describe
from pubqueue.rules.inspect import Peek, ReadConnections, ReadHistory, ReadWorkers
from pubqueue.rules.read import ReadNodes
from pubqueue.rules.survey import STATES as PROBLEMS
from pubqueue.rules.survey import ReadSamples, ReadSurvey, Sort, place_of
from pubqueue_xeps.wire.names import PARENT, parted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import ItemId, Node, Principal
    from pubqueue.monitor.page.plots import Plot
    from pubqueue.operations.model import Given
    from pubqueue.rules.survey import Place

    Ask = Callable[[Request], Awaitable[Reply]]

T = TypeVar("T")

HOUR: Final = 3_600_000

ROWS: Final = 50
"""Queues, or items, on one page."""

SEARCHES: Final = 10
"""Parts of a search for which one view waits; after them the page offers to continue."""

CLIENTS: Final = 20
"""Connections that the page of a queue shows."""

STEPS: Final = 100
"""Steps of the history of an item on one page."""

SHOWN: Final = 4_000
"""Characters of a payload that are shown."""

ORDERS: Final = (
    (Order.COUNT.value, "Most"),
    (Order.REASON.value, "By reason"),
    (Order.QUEUE.value, "By queue"),
    (Order.AGE.value, "Oldest"),
    (Order.WORKER.value, "By worker"),
)
"""The orders of dead items, each with its label."""

STATES: Final = (
    ("", "All items"),
    ("queued", "Waiting"),
    ("locked", "In flight"),
    ("delayed", "Delayed"),
    ("held", "Held"),
    ("dead", "Dead"),
    ("done", "Done and kept"),
)
"""The states by which items can be shown, each with its label."""


class Row(Struct, frozen=True):
    """A queue in the list."""

    entry: replies.NodeEntry
    plot: Plot | None
    now: Millis

    @property
    def name(self) -> NodeName:
        """Its name."""
        return self.entry.node.name

    @property
    def state(self) -> str:
        """The state to show first."""
        return nodes.state_of(self.entry.node.config)

    @property
    def age(self) -> int | None:
        """Milliseconds for which its oldest item has waited."""
        return None if self.entry.oldest is None else max(0, self.now - self.entry.oldest)


class Overview(Struct, frozen=True):
    """A page of queues, each with its problems, and the totals; the next page begins after `through`, if there is one."""

    rows: tuple[tuple[Row, tuple[str, ...]], ...]
    totals: replies.Totals
    whole: bool
    through: str
    wanted: str
    sort: Sort
    plain: bool
    first: bool
    state: str = ANY

    def to(self, **words: str) -> str:
        """Return a link to this view with some parameters changed; an empty parameter is left out."""
        now = {"q": self.wanted, "sort": self.sort.value, "plain": "1" if self.plain else ""}
        now["state"] = "" if self.state == ANY else self.state
        found = {name: value for name, value in (now | words).items() if value}
        if found.get("sort") == usual(plain="plain" in found):
            del found["sort"]
        return f"./?{urlencode(found)}" if found else "./"


def usual(*, plain: bool) -> Sort:
    """Return the default order of a list."""
    return Sort.NAME if plain else Sort.PROBLEMS


class Queue(Struct, frozen=True):
    """All about one queue except its items."""

    row: Row
    node: Node
    plots: tuple[Plot, ...]
    hours: int
    workers: tuple[replies.Worker, ...]
    more: bool
    clients: tuple[replies.ClientState, ...] = ()
    """The first subscribed connections on this instance."""
    connected: int = 0
    """The number of subscribed connections."""
    has_graves: bool = True
    """Whether its dead-letter node exists, if it has one."""


class Items(Struct, frozen=True):
    """A page of items of a node."""

    node: NodeName
    state: str
    entries: tuple[replies.ItemEntry, ...]
    more: bool
    through: str
    after: str
    queueing: bool
    reason: str = ""
    text: str = ""
    sort: str = NUMBER

    def to(self, **words: str) -> str:
        """Return a link to this list with some parameters changed; an empty parameter is left out."""
        now = {"state": self.state, "reason": self.reason, "q": self.text}
        now["sort"] = "" if self.sort == NUMBER else self.sort
        found = {name: value for name, value in (now | words).items() if value}
        return f"items?{urlencode({'node': self.node} | found)}"


class Reasons(Struct, frozen=True):
    """Why items of a node died; if `whole`, all dead items were counted."""

    node: NodeName
    reasons: tuple[replies.ReasonCount, ...]
    looked: int
    more: bool
    whole: bool
    after: str


class Deaths(Struct, frozen=True):
    """The dead items of all nodes, or of those with the text in their names, in groups after the first `after`."""

    found: replies.DeathPage
    order: str
    wanted: str
    after: int


class OneItem(Struct, frozen=True):
    """An item with its history, and the beginning of its payload if the user may see it; `item` is None once it has left the node."""

    node: NodeName
    id: ItemId
    history: replies.History
    item: Item | None
    size: int
    shown: Shown | None
    queueing: bool
    after: int = 0
    reply: tuple[Jid, Shown] | None = None
    """Who has replied to it, and the beginning of the reply, if the user may see payloads."""

    @property
    def parent(self) -> tuple[str, str] | None:
        """The node and the id of the item that it follows, if its publisher has named one."""
        headers = () if self.item is None else self.item.headers
        return next((parted(value) for name, value in headers if name == PARENT), None)


def same(one: str, other: str) -> bool:
    """Return whether two texts are equal, in constant time."""
    first, second = (text.encode("utf-8", "surrogatepass") for text in (one, other))
    return hmac.compare_digest(first, second)


def state_of(text: str) -> State | None:
    """Return the requested state of items; None: all."""
    return State(text) if text in {name for name, _ in STATES if name} else None


async def _asked(ask: Ask, request: Request, kind: type[T]) -> T:
    """Return the reply to the request, which is of this kind."""
    reply = await ask(request)
    assert isinstance(reply, kind)
    return reply


async def overview(
    ask: Ask,
    by: Principal,
    wanted: str,
    sort: Sort,
    after: Place | None,
    *,
    plain: bool,
    state: str = ANY,
) -> Overview:
    """Return the next queues in that order, or of those with the text in their names or in that state, with plots of the last hour."""
    request = ReadSurvey(
        *(by, sort, PROBLEMS.get(state)), plain=plain, containing=wanted, after=after, most=ROWS
    )
    found = await _asked(ask, request, replies.Survey)
    rows = await _rows(ask, by, tuple(row.entry for row in found.rows), found.now or Millis(0))
    through = place_in_words(place_of(found.rows[-1], sort)) if found.rows and found.more else ""
    problems = tuple(row.problems for row in found.rows)
    return Overview(
        tuple(zip(rows, problems, strict=True)),
        found.totals,
        found.whole,
        through,
        wanted,
        sort,
        plain,
        first=after is None,
        state=state,
    )


async def some(ask: Ask, by: Principal, names: tuple[NodeName, ...]) -> tuple[Row, ...]:
    """Return these nodes, if they exist, with plots of the last hour."""
    page = await _asked(ask, ReadNodes(by, only=names), replies.NodePage)
    return await _rows(ask, by, page.entries, page.now)


async def _rows(
    ask: Ask, by: Principal, entries: tuple[replies.NodeEntry, ...], now: Millis
) -> tuple[Row, ...]:
    end = Millis(slot_of(now) + SLOT)
    begin = Millis(end - HOUR)
    names = tuple(entry.node.name for entry in entries if entry.node.config.queueing)
    samples = await _asked(ask, ReadSamples(by, names, begin), SamplePage)
    return tuple(_row(entry, samples, begin, end, now) for entry in entries)


def _row(
    entry: replies.NodeEntry, samples: SamplePage, begin: Millis, end: Millis, now: Millis
) -> Row:
    if not entry.node.config.queueing:
        return Row(entry, None, now)
    mine = samples.of(entry.node.name)
    made = entry.node.created
    drawn = plots.draw(plots.SMALL, mine, begin, end, _now(entry, now), made=made)
    return Row(entry, drawn, now)


def _now(entry: replies.NodeEntry, now: Millis) -> Sample:
    """Return the current counts as a sample."""
    there = entry.queued, entry.locked, entry.delayed, entry.dead
    return Sample(entry.node.name, slot_of(now), *there)


async def queue(ask: Ask, by: Principal, name: NodeName, *, hours: int, after: Jid | None) -> Queue:
    """Return all about a queue: its contents, plots of the last hours, and a page of its workers."""
    node = await described(ask, by, name)
    found = await some(ask, by, (name,))
    row = found[0] if found else Row(replies.NodeEntry(node, 0, 0, 0, 0, 0), None, Millis(0))
    workers = await _asked(ask, ReadWorkers(by, name, after), replies.WorkerPage)
    end = Millis(slot_of(row.now) + SLOT)
    begin = Millis(end - hours * HOUR)
    samples = await _asked(ask, ReadSamples(by, (name,), Millis(end - KEPT)), SamplePage)
    there = _now(row.entry, row.now)
    minutes = samples.samples, begin, end, there
    drawn = tuple(plots.draw(kind, *minutes, made=node.created) for kind in plots.KINDS)
    connections = ReadConnections(by, most=CLIENTS, node=name)
    here = await _asked(ask, connections, replies.ConnectionPage)
    shown = workers.workers, workers.more, here.clients, here.total
    place = NodeName(node.config.dead_letter_node)
    has_graves = not place or await _exists(ask, by, place)
    return Queue(row, node, drawn, hours, *shown, has_graves=has_graves)


async def items(ask: Ask, by: Principal, given: Given) -> Items:
    """Return the next items of a node, as the operation asks for them; of those with a reason, as far as a few replies reach."""
    name, reason, after = node_of(given), given.one("reason"), given.one("after")
    wanted = ITEMS.ask(by, given)
    reply = await ask(wanted)
    if isinstance(reply, replies.Found):
        page, more, through = reply.page, reply.more, ITEMS.answer(reply, given).through
        found = page.entries
    else:
        assert isinstance(reply, replies.ItemPage)
        page, found = reply, reply.entries
        for _ in range(1, SEARCHES):
            if not reason or not page.more or len(found) >= ROWS:
                break
            wanted = replace(wanted, after=page.through, max=ROWS - len(found))
            page = await _asked(ask, wanted, replies.ItemPage)
            found += page.entries
        more, through = page.more, str(page.through)
    state = given.one("state").replace(ALL, "")
    queueing = (await described(ask, by, name)).config.queueing
    text, sort = given.one("match"), given.one("sort") or NUMBER
    return Items(name, state, found, more, through, after, queueing, reason, text, sort)


async def described(ask: Ask, by: Principal, name: NodeName) -> Node:
    """Return a node with its settings."""
    return (await _asked(ask, Describe(by, name, manage=True), replies.Described)).node


async def _exists(ask: Ask, by: Principal, name: NodeName) -> bool:
    try:
        await described(ask, by, name)
    except RefusedError as problem:
        return problem.reply.refusal is not Refusal.NODE_NOT_FOUND
    return True


async def reasons(ask: Ask, by: Principal, name: NodeName, after: str) -> Reasons:
    """Return why the dead items of a node died."""
    reply = await _asked(ask, ReadReasons(by, name, after or None), replies.ReasonPage)
    return Reasons(name, reply.reasons, reply.looked, reply.more, reply.whole, after)


async def deaths(ask: Ask, by: Principal, order: Order, wanted: str, after: int) -> Deaths:
    """Return the next groups of dead items of all nodes, in that order."""
    request = ReadDeaths(by, order, containing=wanted, after=after, most=ROWS)
    return Deaths(await _asked(ask, request, replies.DeathPage), order.value, wanted, after)


async def item(
    ask: Ask, by: Principal, name: NodeName, which: ItemId, after: int = 0, *, payload: bool
) -> OneItem:
    """Return one item and the next steps of its history; the beginning of its payload only if the user may see it."""
    request = ReadHistory(by, name, which, after, max=STEPS)
    history = await _asked(ask, request, replies.History)
    queueing, answer = history.node.config.queueing, None
    if history.result is not None and payload:
        replied, body = history.result
        answer = replied.publisher, shown(body, replied.headers, SHOWN)
    try:
        reply = await _asked(ask, Peek(by, name, which), replies.Peeked)
    except RefusedError as problem:
        if problem.reply.refusal is not Refusal.ITEM_NOT_FOUND:
            raise
        return OneItem(name, which, history, None, 0, None, queueing, after, answer)
    read = shown(reply.payload, reply.item.headers, SHOWN) if payload else None
    size = len(reply.payload)
    return OneItem(name, which, history, reply.item, size, read, queueing, after, answer)
