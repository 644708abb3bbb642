"""The routes of a profile: one table, and the match of a path with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from aiohttp import web

    Handler = Callable[[Any], Awaitable[web.StreamResponse]]

_VARIABLE: Final = re.compile(r"\{(\w+)\}")


class Route(Struct, frozen=True):
    """A method of a resource. `word` names it in metrics; `path` is below the prefix, with variables such as `{node}`."""

    method: str
    path: str
    handler: Handler
    word: str


class Resource(Struct):
    """The resource at the paths of one pattern: its routes by method."""

    pattern: tuple[str | re.Pattern[str], ...]
    routes: dict[str, Route]

    @property
    def allow(self) -> str:
        """The methods, as in the header `Allow`."""
        methods = {"OPTIONS", *self.routes} | ({"HEAD"} if "GET" in self.routes else set())
        return ", ".join(sorted(methods))

    def route(self, method: str) -> Route | None:
        """Return the route of a method; HEAD is served as GET."""
        return self.routes.get("GET" if method == "HEAD" else method)

    def match(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Return the variables if the segments of a path match, else None."""
        found: dict[str, str] = {}
        for wanted, segment in zip(self.pattern, segments, strict=True):
            if isinstance(wanted, str):
                if wanted != segment:
                    return None
            elif (fits := wanted.fullmatch(segment)) is None:
                return None
            else:
                found |= fits.groupdict()
        return found


class Profile(Struct, frozen=True):
    """A table of routes, and the prefix of its paths. `posting` is the last part of the path of a node that messages are posted to."""

    name: str
    prefix: str
    routes: tuple[Route, ...]
    posting: str = "messages"


class Routes:
    """The resources of a profile, by the number of segments."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._resources: dict[int, list[Resource]] = {}
        for route in routes:
            pattern = tuple([_compiled(part) for part in route.path.strip("/").split("/")])
            same = self._resources.setdefault(len(pattern), [])
            resource = next((one for one in same if one.pattern == pattern), None)
            if resource is None:
                resource = Resource(pattern, {})
                same.append(resource)
            resource.routes[route.method] = route

    def find(self, raw_path: str) -> tuple[Resource, Mapping[str, str]] | None:
        """Return the resource of a path below the prefix, and its variables, or None."""
        segments = segments_of(raw_path)
        if segments is None:
            return None
        for resource in self._resources.get(len(segments), ()):
            if (found := resource.match(segments)) is not None:
                return resource, found
        return None


def segments_of(raw_path: str) -> tuple[str, ...] | None:
    """Return the decoded segments of a path; None if one is not UTF-8, or has a NUL, which no name has."""
    try:
        segments = [
            unquote_to_bytes(part).decode() if "%" in part else part
            for part in raw_path.strip("/").split("/")
        ]
    except UnicodeDecodeError:
        return None
    return None if any("\0" in segment for segment in segments) else tuple(segments)


def _compiled(part: str) -> str | re.Pattern[str]:
    if "{" not in part:
        return part
    pieces = _VARIABLE.split(part)
    texts = [f"(?P<{piece}>.+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)]
    return re.compile("".join(texts), re.DOTALL)
