"""Pages of the service, requested over this process's stream.

`pubqueue_xeps.reading` describes them. Here a refusal becomes one sentence, which Spark shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pubqueue_spark.client.ask import ask
from pubqueue_spark.client.refusals import explanation
from pubqueue_spark.errors import OptionError, ServiceError
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import pages

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_spark.read.options import ReadSettings
    from pubqueue_xeps.wire.requests import IqRequest
    from pubqueue_xeps.wire.requests.pages import EventPage, ItemPage, NodePage, RecordPage, State


@dataclass(frozen=True, slots=True)
class ServicePages:
    """Reads the service page by page."""

    settings: ReadSettings
    who: str = "the driver"
    application: str = "driver"

    def events(
        self, node: str | None, after: int, until: int | None = None, most: int | None = None
    ) -> EventPage:
        """Return events after `after`."""
        return pages.event_page(self._page(pages.event_question(node, after, until, most), node))

    def items(
        self,
        node: str,
        after: int,
        until: int | None = None,
        most: int | None = None,
        *,
        payload: bool = False,
    ) -> ItemPage:
        """Return items after `after`; for dead items, by the numbers of their dead letters."""
        state: State | None = "dead" if self.settings.table == "deadletters" else None
        asked = pages.item_question(node, after, until, most, state=state, payload=payload)
        return pages.item_page(self._page(asked, node), node)

    def nodes(self, after: str | None) -> NodePage:
        """Return the nodes that the account may read."""
        return pages.node_page(self._page(pages.question("nodes", after=after)))

    def records(self, after: int) -> RecordPage:
        """Return the account's transactions; for an administrator, all."""
        return pages.record_page(self._page(pages.question("transactions", after=after)))

    def _page(self, asked: IqRequest, node: str | None = None) -> Element:
        (answer,) = ask(self.settings, asked, who=self.who, application=self.application)
        if isinstance(answer, Refusal):
            raise self._refused(answer, asked.words.removeprefix("a page of "), node)
        try:
            return pages.element(answer, asked)
        except ValueError as error:
            raise ServiceError(f"{self.settings.service} {error}.") from None

    def _refused(self, refusal: Refusal, what: str, node: str | None) -> Exception:
        jid, service = self.settings.jid, self.settings.service
        if refusal.condition in {"forbidden", "not-allowed"}:  # the latter for a closed node
            return OptionError(
                f"option jid: {jid} may not read {what} at {service}; owners and publishers of a node"
                " may, so let its owner make the account its publisher."
            )
        if refusal.condition == "item-not-found" and node is not None:
            return OptionError(f"option node: {service} has no node {node!r}.")
        return ServiceError(f"{service} refused {what}: {explanation(refusal)}.")
