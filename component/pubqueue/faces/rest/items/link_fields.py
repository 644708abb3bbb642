"""Fields `Link` of requests (RFC 8288): the links of a publisher."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.http.urls import split
from pubqueue.faces.rest.http.problems import bad_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TARGET: Final = re.compile(r"\s*<([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*)>")
"""The target in the characters of a URI (RFC 3986 2)."""
_PARAMETER: Final = re.compile(
    r'\s*;\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?'
)
_COMMA: Final = re.compile(r"[\s,]*(?:,|$)[\s,]*")

REPLIES: Final = ("reply-to", "reply-to-once", "reply-to-batch", "reply-to-batch-once")
"""The relations by which a consumer replies."""


class GivenLink(Struct, frozen=True):
    """A link of a request, and its original text."""

    target: str
    rels: tuple[str, ...]
    text: str


def links_in(fields: Iterable[str]) -> Iterator[GivenLink]:
    """Yield the links of these fields.

    Raises:
        ProblemError: one cannot be read.

    """
    for field in fields:
        at = 0
        while at < len(field):
            target = _TARGET.match(field, at)
            if target is None or split(target[1]) is None:
                raise bad_request("Link cannot be read")
            begin, at, rels = at, target.end(), ()
            while parameter := _PARAMETER.match(field, at):
                value = parameter[3] if parameter[2] is None else parameter[2]
                if parameter[1].lower() == "rel" and not rels:
                    rels = tuple((value or "").lower().split())
                at = parameter.end()
            yield GivenLink(target[1], rels, field[begin:at].strip())
            comma = _COMMA.match(field, at)
            if comma is None:
                raise bad_request("Link cannot be read")
            at = comma.end()
