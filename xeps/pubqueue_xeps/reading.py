"""Read a queue from outside: its event log, its items, its nodes. Reading takes nothing and changes nothing.

Each `..._page` asks once. `events`, `items` and `nodes` go on from page to page, up to what was the newest
when they began; a queue moves meanwhile, so items are as they were when their page was read. Where
a page ends is for the service to say (`through`, `more`): go on with `after=page.through`.

Owners and publishers of a node may, and administrators of the service. All of it is in the namespace
`urn:x-pubqueue:0`; a service that offers it has the features `EVENTS` and `READS` (XEP-0030).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from xml.etree.ElementTree import Element

from slixmpp.exceptions import IqError, IqTimeout

from pubqueue_xeps.clock import moment
from pubqueue_xeps.errors import ServiceUnavailable
from pubqueue_xeps.ns import PUBQUEUE, SHIM
from pubqueue_xeps.xep_0254.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from slixmpp import ClientXMPP

EVENTS: Final = f"{PUBQUEUE}#events"
READS: Final = f"{PUBQUEUE}#reads"

State = Literal["queued", "locked", "delayed", "dead"]

_CONFIG: Final = f"{{{PUBQUEUE}}}config"
_PAYLOAD: Final = f"{{{PUBQUEUE}}}payload"
_HEADER: Final = f"{{{SHIM}}}headers/{{{SHIM}}}header"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened. `age_ms` is since the publish, `held_ms` since the delivery of a lock that ended.

    Who moves from node to node is told of in both: with `to` where it leaves, `origin` where it enters.
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
    """All events up to `through` that the asker may read; the log goes from `oldest` to `newest`.

    Both are 0 before the first event. Who has read up to `n` has lost events if `oldest` is above n + 1.
    """

    entries: tuple[Event, ...]
    oldest: int
    newest: int
    through: int
    more: bool


@dataclass(frozen=True, slots=True)
class Grave:
    """How an item died. `seq` rises with every death in the service."""

    seq: int
    at: datetime
    reason: str
    last_holder: str | None
    origin: str | None


@dataclass(frozen=True, slots=True)
class ReadItem:
    """An item as it was when it was read. `size` is that of its payload in bytes."""

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
    grave: Grave | None = None
    headers: dict[str, str] = field(default_factory=dict)
    payload: Element | None = None


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items up to the number `through`; of the dead, up to that death."""

    entries: tuple[ReadItem, ...]
    newest: int
    through: int
    more: bool


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node with its counts. `oldest` is when its oldest waiting item was published.

    `config` has the settings, for owners; for others it is empty.
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


@dataclass(frozen=True, slots=True)
class NodePage:
    """Nodes by name."""

    entries: tuple[ReadNode, ...]
    more: bool


class Reader:
    """Reads through a client that is logged in; it keeps nothing between two questions.

    Raises NoSuchNode, Refused (not allowed to read), or ServiceUnavailable, which may pass.
    """

    def __init__(self, client: ClientXMPP, service: str, *, timeout: float = 30) -> None:
        self._client = client
        self._service = service
        self._timeout = timeout

    async def event_page(
        self,
        *,
        node: str | None = None,
        after: int = 0,
        until: int | None = None,
        most: int | None = None,
    ) -> EventPage:
        """Return events numbered behind `after`, of one node or of all that we may read."""
        answer = await self._ask("events", node=node, after=after, until=until, max=most)
        return EventPage(
            tuple(_event(element) for element in answer),
            oldest=_whole(answer, "oldest"),
            newest=_whole(answer, "newest"),
            through=_whole(answer, "through"),
            more=_more(answer),
        )

    async def events(
        self, *, node: str | None = None, after: int = 0, until: int | None = None
    ) -> AsyncIterator[Event]:
        """Go through the events behind `after`, up to `until` or what is the newest now."""
        more = True
        while more:
            page = await self.event_page(node=node, after=after, until=until)
            for event in page.entries:
                yield event
            until = page.newest if until is None else until
            after, more = page.through, page.more

    async def item_page(
        self,
        node: str,
        *,
        after: int = 0,
        until: int | None = None,
        most: int | None = None,
        state: State | None = None,
        payload: bool = True,
    ) -> ItemPage:
        """Return items numbered behind `after`; those in the state dead by the numbers of their deaths."""
        answer = await self._ask(
            "items",
            node=node,
            after=after,
            until=until,
            max=most,
            state=state,
            payload=None if payload else "false",
        )
        return ItemPage(
            tuple(_item(element, node) for element in answer),
            newest=_whole(answer, "newest"),
            through=_whole(answer, "through"),
            more=_more(answer),
        )

    async def items(
        self,
        node: str,
        *,
        after: int = 0,
        until: int | None = None,
        state: State | None = None,
        payload: bool = True,
    ) -> AsyncIterator[ReadItem]:
        """Go through the items behind `after`, up to `until` or what is the newest now."""
        more = True
        while more:
            page = await self.item_page(
                node, after=after, until=until, state=state, payload=payload
            )
            for item in page.entries:
                yield item
            until = page.newest if until is None else until
            after, more = page.through, page.more

    async def node_page(self, *, after: str | None = None, most: int | None = None) -> NodePage:
        """Return the nodes that we may read behind the name `after`."""
        answer = await self._ask("nodes", after=after, max=most)
        return NodePage(tuple(_node(element) for element in answer), _more(answer))

    async def nodes(self) -> AsyncIterator[ReadNode]:
        """Go through all nodes that we may read, by name."""
        after, more = None, True
        while more:
            page = await self.node_page(after=after)
            for node in page.entries:
                yield node
                after = node.name
            more = page.more

    async def _ask(self, name: str, **words: object) -> Element:
        """Ask for a page and return its element."""
        given = {key: str(value) for key, value in words.items() if value is not None}
        iq: Any = self._client.Iq(sto=self._service, stype="get")
        iq.append(Element(f"{{{PUBQUEUE}}}{name}", given))
        try:
            answer = await iq.send(timeout=self._timeout)
        except IqTimeout:
            raise ServiceUnavailable(f"{self._service} does not answer.") from None
        except IqError as error:
            raise refusal(error.iq.xml, self._service, given.get("node", "")) from None
        page: Element | None = answer.xml.find(f"{{{PUBQUEUE}}}{name}")
        if page is None:
            raise ServiceUnavailable(f"{self._service} does not answer with {name}.")
        return page


def _whole(element: Element, name: str) -> int:
    return int(element.get(name, "0"))


def _number(element: Element, name: str) -> int | None:
    text = element.get(name)
    return None if text is None else int(text)


def _time(element: Element, name: str) -> datetime | None:
    text = element.get(name)
    return None if text is None else moment(text)


def _more(page: Element) -> bool:
    return page.get("more") in {"true", "1"}


def _event(element: Element) -> Event:
    return Event(
        seq=_whole(element, "seq"),
        at=moment(element.get("at", "")),
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
        published=moment(element.get("published", "")),
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
        grave=_grave(element),
        headers={h.get("name", ""): h.text or "" for h in element.iterfind(_HEADER)},
        payload=None if payload is None or not len(payload) else payload[0],
    )


def _grave(element: Element) -> Grave | None:
    died = _time(element, "dead-at")
    if died is None:
        return None
    words = element.get("reason", ""), element.get("last-holder"), element.get("origin")
    return Grave(_whole(element, "death"), died, *words)


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
    )
