"""Pages of the service, asked for over the stream that this process keeps.

`pubqueue_xeps.reading` says what they are. Here a refusal becomes the one sentence that Spark shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from pubqueue_spark.ask import ask
from pubqueue_spark.errors import OptionError, ServiceError
from pubqueue_spark.refusals import Refusal
from pubqueue_spark.request import Question
from pubqueue_xeps import ns, pages

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_spark.read_options import ReadSettings
    from pubqueue_xeps.pages import EventPage, ItemPage, NodePage, RecordPage


@dataclass(frozen=True, slots=True)
class Outside:
    """The service, as who looks at it from outside sees it."""

    settings: ReadSettings
    who: str = "the driver"
    application: str = "driver"

    def events(
        self, node: str | None, after: int, until: int | None = None, most: int | None = None
    ) -> EventPage:
        """Return events behind `after`."""
        answer = self._page("events", node=node, after=after, until=until, max=most)
        return pages.event_page(answer)

    def items(
        self,
        node: str,
        after: int,
        until: int | None = None,
        most: int | None = None,
        *,
        payload: bool = False,
    ) -> ItemPage:
        """Return items behind `after`; of the dead letters, by the numbers of their deaths."""
        answer = self._page(
            "items",
            node=node,
            after=after,
            until=until,
            max=most,
            state="dead" if self.settings.table == "deadletters" else None,
            payload=None if payload else "false",
        )
        return pages.item_page(answer, node)

    def nodes(self, after: str | None) -> NodePage:
        """Return the nodes that the account may read."""
        return pages.node_page(self._page("nodes", after=after))

    def records(self, after: int) -> RecordPage:
        """Return the account's transactions; an administrator's are all."""
        return pages.record_page(self._page("transactions", after=after))

    def _page(self, name: str, **words: object) -> Element:
        given = {key: str(value) for key, value in words.items() if value is not None}
        inner = "".join(f" {key}={quoteattr(value)}" for key, value in given.items())
        node = given.get("node")
        what = name if node is None else f"{name} of node {node!r}"
        question = Question("get", f"a page of {what}", f"<{name} xmlns='{ns.PUBQUEUE}'{inner}/>")
        (answer,) = ask(self.settings, question, who=self.who, application=self.application)
        if isinstance(answer, Refusal):
            raise self._refused(answer, what, node)
        page = answer.find(f"{{{ns.PUBQUEUE}}}{name}")
        if page is None:
            raise ServiceError(f"{self.settings.service} does not answer with {name}.")
        return page

    def _refused(self, refusal: Refusal, what: str, node: str | None) -> Exception:
        jid, service = self.settings.jid, self.settings.service
        if refusal.condition == "forbidden":
            return OptionError(
                f"option jid: {jid} may not read {what} at {service}; owners and publishers of a node"
                " may, so let its owner make the account its publisher."
            )
        if refusal.condition == "item-not-found" and node is not None:
            return OptionError(f"option node: {service} has no node {node!r}.")
        return ServiceError(f"{service} refused {what}: {refusal}.")
