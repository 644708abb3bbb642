"""Walks through the pages of a list, for any caller and any kind of request.

walk = Walk(after=0)
while walk.more:
    page = walk.take(await reader.event_page(after=walk.after, until=walk.until))
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from pubqueue_xeps.wire.requests.pages import EventPage, ItemPage

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
