"""The pages of events, items, nodes and transactions, and how they are parsed.

All of this is in the namespace `urn:x-pubqueue:0`; `pubqueue_xeps.reading` sends the requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Literal, Protocol, TypeVar

from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.ns import DISCO_INFO, PUBQUEUE, SHIM
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.times import read_time
from pubqueue_xeps.wire.xml_text import attributes

if TYPE_CHECKING:
    from datetime import datetime
    from xml.etree.ElementTree import Element


EVENTS: Final = f"{PUBQUEUE}#events"
READS: Final = f"{PUBQUEUE}#reads"

State = Literal["queued", "locked", "delayed", "held", "dead", "done"]

_CONFIG: Final = f"{{{PUBQUEUE}}}config"
_PAYLOAD: Final = f"{{{PUBQUEUE}}}payload"
_HEADER: Final = f"{{{SHIM}}}headers/{{{SHIM}}}header"


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the event log. `age_ms` counts from the publish, `held_ms` from the delivery of a lock that ended.

    An item that moves between nodes has an event in both: with `to` in the node it leaves, `origin` in the node it
    enters.
    """

    seq: int
    at: datetime
    type: str
    node: str
    item: str | None
    attempt: int | None
    worker: str | None
    publisher: str | None
    age_ms: int | None
    held_ms: int | None
    origin: str | None
    to: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class EventPage:
    """All events up to `through` that the account may read; the log goes from `oldest` to `newest`.

    Both are 0 before the first event. A reader that has read up to `n` has missed events if
    `oldest` is above n + 1.
    """

    entries: tuple[Event, ...]
    oldest: int
    newest: int
    through: int
    more: bool


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """How an item died. `seq` increases with every dead letter of the service."""

    seq: int
    at: datetime
    reason: str
    last_holder: str | None
    origin: str | None


@dataclass(frozen=True, slots=True)
class ReadItem:
    """An item as it was when it was read. `size` is the size of its payload in bytes.

    `error` is the reason of its last failure or release, if that is not the reason of its death. Of an item that is done
    and kept, `done` is when it was, by which `worker`, and `delivered` when that one got it; the last two are None if a
    seek has finished it.
    """

    id: str
    node: str
    seq: int
    state: str
    priority: int
    published: datetime
    publisher: str
    acquired: int
    failed: int
    size: int
    not_before: datetime | None = None
    expires: datetime | None = None
    holder: str | None = None
    deadline: datetime | None = None
    txn_app: str | None = None
    txn_version: int | None = None
    dead_letter: DeadLetter | None = None
    headers: dict[str, str] = field(default_factory=dict)
    payload: Element | None = None
    group: str | None = None
    error: str | None = None
    delivered: datetime | None = None
    done: datetime | None = None
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items up to the number `through`; of the dead, up to that dead letter."""

    entries: tuple[ReadItem, ...]
    newest: int
    through: int
    more: bool


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node with its counts. `oldest` is when its oldest waiting item was published.

    `config` has the settings for owners, and is empty for others.
    """

    name: str
    queued: int
    locked: int
    delayed: int
    dead: int
    subscribers: int
    window_free: int
    oldest: datetime | None
    config: dict[str, str]
    held: int = 0


@dataclass(frozen=True, slots=True)
class NodePage:
    """Nodes by name."""

    entries: tuple[ReadNode, ...]
    more: bool

    @property
    def through(self) -> str | None:
        """Return the last name; None on an empty page."""
        return self.entries[-1].name if self.entries else None


@dataclass(frozen=True, slots=True)
class Record:
    """A committed transaction. `skipped`, `dead_lettered` and `seconds` are as its publisher reported them."""

    id: int
    app: str
    version: int
    publisher: str
    committed: datetime
    rows: int
    bytes: int
    skipped: int | None
    dead_lettered: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Transactions in the order of their ids."""

    entries: tuple[Record, ...]
    more: bool

    @property
    def through(self) -> int:
        """Return the last id; 0 on an empty page."""
        return self.entries[-1].id if self.entries else 0


def question(name: str, node: str | None = None, **words: object) -> IqRequest:
    """Ask for a page: `events`, `items`, `nodes` or `transactions`."""
    what = name if node is None else f"{name} of node {checked(node, 'The node')!r}"
    inner = f"<{name} xmlns='{PUBQUEUE}'{attributes(node=node, **words)}/>"
    return IqRequest("get", f"a page of {what}", inner)


def event_question(
    node: str | None, after: int, until: int | None = None, most: int | None = None
) -> IqRequest:
    """Ask for events with numbers above `after`, of one node or of all nodes that this account may read."""
    return question("events", node, after=after, until=until, max=most)


def item_question(
    node: str,
    after: int,
    until: int | None = None,
    most: int | None = None,
    *,
    state: State | None = None,
    payload: bool = True,
) -> IqRequest:
    """Ask for items with numbers above `after`; for dead items, by the numbers of their dead letters."""
    bounds = {"after": after, "until": until, "max": most}
    return question("items", node, **bounds, state=state, payload=None if payload else "false")


def element(answer: Element, asked: IqRequest) -> Element:
    """Return the page in an answer; raises ValueError if there is none."""
    name = asked.inner[1:].partition(" ")[0]
    page = answer.find(f"{{{PUBQUEUE}}}{name}")
    if page is None:
        raise ValueError(f"does not answer with {name}")
    return page


def event_page(answer: Element) -> EventPage:
    """Read the element `events`."""
    return EventPage(
        tuple(_event(element) for element in answer),
        oldest=_whole(answer, "oldest"),
        newest=_whole(answer, "newest"),
        through=_whole(answer, "through"),
        more=_more(answer),
    )


def item_page(answer: Element, node: str) -> ItemPage:
    """Read the element `items`."""
    return ItemPage(
        tuple(_item(element, node) for element in answer),
        newest=_whole(answer, "newest"),
        through=_whole(answer, "through"),
        more=_more(answer),
    )


def node_page(answer: Element) -> NodePage:
    """Read the element `nodes`."""
    return NodePage(tuple(_node(element) for element in answer), _more(answer))


def record_page(answer: Element) -> RecordPage:
    """Read the element `transactions`."""
    return RecordPage(tuple(_record(element) for element in answer), _more(answer))


def _whole(element: Element, name: str) -> int:
    return int(element.get(name, "0"))


def _number(element: Element, name: str) -> int | None:
    text = element.get(name)
    return None if text is None else int(text)


def _time(element: Element, name: str) -> datetime | None:
    text = element.get(name)
    return None if text is None else read_time(text)


def _more(page: Element) -> bool:
    return page.get("more") in {"true", "1"}


def _event(element: Element) -> Event:
    return Event(
        seq=_whole(element, "seq"),
        at=read_time(element.get("at", "")),
        type=element.get("type", ""),
        node=element.get("node", ""),
        item=element.get("item"),
        attempt=_number(element, "attempt"),
        worker=element.get("worker"),
        publisher=element.get("publisher"),
        age_ms=_number(element, "age"),
        held_ms=_number(element, "held"),
        origin=element.get("from"),
        to=element.get("to"),
        detail=element.get("detail"),
    )


def _item(element: Element, node: str) -> ReadItem:
    payload = element.find(_PAYLOAD)
    return ReadItem(
        id=element.get("id", ""),
        node=node,
        seq=_whole(element, "seq"),
        state=element.get("state", ""),
        priority=_whole(element, "priority"),
        published=read_time(element.get("published", "")),
        publisher=element.get("publisher", ""),
        acquired=_whole(element, "acquired"),
        failed=_whole(element, "failed"),
        size=_whole(element, "size"),
        not_before=_time(element, "not-before"),
        expires=_time(element, "expires"),
        holder=element.get("holder"),
        deadline=_time(element, "deadline"),
        txn_app=element.get("txn-app"),
        txn_version=_number(element, "txn-version"),
        dead_letter=_dead_letter(element),
        headers={h.get("name", ""): h.text or "" for h in element.iterfind(_HEADER)},
        payload=None if payload is None or not len(payload) else payload[0],
        group=element.get("group"),
        error=element.get("error"),
        delivered=_time(element, "delivered"),
        done=_time(element, "done"),
        worker=element.get("worker"),
    )


def _dead_letter(element: Element) -> DeadLetter | None:
    died = _time(element, "dead-at")
    if died is None:
        return None
    words = element.get("reason", ""), element.get("last-holder"), element.get("origin")
    return DeadLetter(_whole(element, "death"), died, *words)


def _node(element: Element) -> ReadNode:
    return ReadNode(
        name=element.get("name", ""),
        queued=_whole(element, "queued"),
        locked=_whole(element, "locked"),
        delayed=_whole(element, "delayed"),
        dead=_whole(element, "dead"),
        subscribers=_whole(element, "subscribers"),
        window_free=_whole(element, "window-free"),
        oldest=_time(element, "oldest"),
        config={c.get("var", ""): c.get("value", "") for c in element.iterfind(_CONFIG)},
        held=_whole(element, "held") if element.get("held") else 0,
    )


def _record(element: Element) -> Record:
    seconds = element.get("seconds")
    return Record(
        id=_whole(element, "id"),
        app=element.get("app", ""),
        version=_whole(element, "version"),
        publisher=element.get("publisher", ""),
        committed=read_time(element.get("committed", "")),
        rows=_whole(element, "rows"),
        bytes=_whole(element, "bytes"),
        skipped=_number(element, "skipped"),
        dead_lettered=_number(element, "dead-lettered"),
        seconds=None if seconds is None else float(seconds),
    )


# Walks through the pages of a list, for any caller and any kind of request: ask for what follows `after`, and give the page to `take`.

Place = TypeVar("Place")


class Page(Protocol):
    """A page of anything that is listed."""

    @property
    def through(self) -> object:
        """The position up to which the page is complete."""

    @property
    def more(self) -> bool:
        """Whether another page follows."""


P = TypeVar("P", bound=Page)


class Walk(Generic[Place]):
    """The position of a reader that goes from page to page, while there is `more`.

    `until` is a number: by default the newest one when the walk began. A walk by name goes to the end of the list at
    that time.
    """

    def __init__(self, after: Place, until: int | None = None) -> None:
        self.after = after
        self.until = until
        self.more = True

    def take(self, page: P) -> P:
        """Move past a page, and return it."""
        if self.until is None and isinstance(page, EventPage | ItemPage):
            self.until = page.newest
        self.after, self.more = page.through, page.more  # type: ignore[assignment]  # the listing's
        return page


# The identity and features of a service or node (XEP-0030 section 3.1).


def request(service: str, node: str | None = None) -> IqRequest:
    """Ask the service what it is, or what a node is."""
    words = f"what {service} is" if node is None else f"what node {node!r} is"
    return IqRequest("get", words, f"<query xmlns='{DISCO_INFO}'{attributes(node=node)}/>")


def features(answer: Element) -> frozenset[str]:
    """Return the features in an answer."""
    return frozenset(f.get("var", "") for f in answer.iter(f"{{{DISCO_INFO}}}feature"))
