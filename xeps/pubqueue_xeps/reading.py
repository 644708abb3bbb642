"""Reads the event log, the items and the nodes of a service. Reading locks and changes nothing.

Each `..._page` method makes one request. `events`, `items` and `nodes` go from page to page, up to the newest entry
when they began. The queue changes meanwhile, so items are as they were when their page was read. The service decides
where a page ends (`through`, `more`): continue with `after=page.through`.

Owners and publishers of a node may read it, and administrators of the service. All of this is in the namespace
`urn:x-pubqueue:0`; a service that supports it has the features `EVENTS` and `READS` of `pages` (XEP-0030).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue_xeps.client.ask import ask_about
from pubqueue_xeps.errors import ServiceUnavailable
from pubqueue_xeps.wire.requests import pages
from pubqueue_xeps.wire.requests.pages import Walk
from pubqueue_xeps.wire.times import span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from xml.etree.ElementTree import Element

    from slixmpp import ClientXMPP

    from pubqueue_xeps.wire.requests import IqRequest
    from pubqueue_xeps.wire.requests.pages import (
        Event,
        EventPage,
        ItemPage,
        NodePage,
        ReadItem,
        ReadNode,
        State,
    )
    from pubqueue_xeps.wire.times import Span


class Reader:
    """Reads over a logged-in client; keeps no state between requests.

    Raises NoSuchNode, Refused (no permission to read), or ServiceUnavailable, which may be temporary.
    """

    def __init__(self, client: ClientXMPP, service: str, *, timeout: Span = 30) -> None:
        self._client = client
        self._service = service
        self._timeout = span("timeout", timeout)

    async def event_page(
        self,
        *,
        node: str | None = None,
        after: int = 0,
        until: int | None = None,
        most: int | None = None,
    ) -> EventPage:
        """Return a page of events with numbers above `after`, of one node or of all nodes that this account may read."""
        asked = pages.event_question(node, after, until, most)
        return pages.event_page(await self._ask(asked, node))

    async def events(
        self, *, node: str | None = None, after: int = 0, until: int | None = None
    ) -> AsyncIterator[Event]:
        """Iterate over the events with numbers above `after`, up to `until` or the newest one now."""
        walk = Walk(after, until)
        while walk.more:
            page = await self.event_page(node=node, after=walk.after, until=walk.until)
            for event in walk.take(page).entries:
                yield event

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
        """Return a page of items with numbers above `after`; for dead items, by the numbers of their dead letters."""
        asked = pages.item_question(node, after, until, most, state=state, payload=payload)
        return pages.item_page(await self._ask(asked, node), node)

    async def items(
        self,
        node: str,
        *,
        after: int = 0,
        until: int | None = None,
        state: State | None = None,
        payload: bool = True,
    ) -> AsyncIterator[ReadItem]:
        """Iterate over the items with numbers above `after`, up to `until` or the newest one now."""
        walk = Walk(after, until)
        while walk.more:
            page = await self.item_page(
                node, after=walk.after, until=walk.until, state=state, payload=payload
            )
            for item in walk.take(page).entries:
                yield item

    async def node_page(self, *, after: str | None = None, most: int | None = None) -> NodePage:
        """Return a page of the nodes that this account may read, with names after `after`."""
        return pages.node_page(await self._ask(pages.question("nodes", after=after, max=most)))

    async def nodes(self) -> AsyncIterator[ReadNode]:
        """Iterate over the nodes that this account may read, by name."""
        walk = Walk[str | None](None)
        while walk.more:
            for node in walk.take(await self.node_page(after=walk.after)).entries:
                yield node

    async def _ask(self, asked: IqRequest, node: str | None = None) -> Element:
        """Ask for a page and return its element."""
        answer = await ask_about(self._client, self._service, node or "", asked, self._timeout)
        try:
            return pages.element(answer, asked)
        except ValueError as error:
            raise ServiceUnavailable(f"{self._service} {error}.") from None
