"""Links of the profile: each is a header `msg-…` and a field `Link`. A template is not a URL, so it is only a header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.rest.exchange import answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

    from pubqueue.faces.rest.http.links import Link


def fields_of(links: Iterable[Link]) -> list[tuple[str, str]]:
    """Return the headers of these links."""
    return [row for link in links for row in _fields(link)]


def _fields(link: Link) -> list[tuple[str, str]]:
    name = f"msg-{link.rel}"
    if "{" in link.url:
        return [(name, link.url)]
    return [(name, link.url), ("Link", f'{link}; title="{name}"')]


def linked(
    status: int,
    links: Iterable[Link],
    headers: Iterable[tuple[str, str]] = (),
    *,
    body: bytes = b"",
    kind: str | None = None,
) -> web.Response:
    """Return an answer with these links."""
    return answer(status, [*headers, *fields_of(links)], body=body, kind=kind)
