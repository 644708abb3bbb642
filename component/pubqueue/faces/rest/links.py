"""The routes of a profile, and absolute links (RFC 8288) to them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from pubqueue.faces.checks import is_trusted
from pubqueue.faces.http.host import last_of, split
from pubqueue.faces.http.problems import bad_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from aiohttp import web
    from multidict import CIMultiDictProxy

    from pubqueue.faces.rest.settings import RestSettings

    Handler = Callable[[Any], Awaitable[web.StreamResponse]]


# The routes of a profile: one table, and the match of a path with it.

_VARIABLE: Final = re.compile(r"\{(\w+)\}")


class Route(Struct, frozen=True):
    """A method of a resource. `word` names it in metrics; `path` is below the prefix, with variables such as `{node}`."""

    method: str
    path: str
    handler: Handler
    word: str


class Resource(Struct):
    """The resource at the paths of one pattern: its variables by their places, each a name or a pattern, and its routes by method."""

    variables: dict[int, str | re.Pattern[str]]
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
        """Return the variables if these segments of a path match, else None."""
        found: dict[str, str] = {}
        for at, variable in self.variables.items():
            if isinstance(variable, str):
                found[variable] = segments[at]
            elif (fits := variable.fullmatch(segments[at])) is None:
                return None
            else:
                found |= fits.groupdict()
        return found if all(found.values()) else None


class Words(Struct, frozen=True):
    """What an operation reads: headers in lower case, parameters of the query, and whether the headers of a message are among them."""

    headers: frozenset[str]
    query: frozenset[str]
    publishes: bool = False


class Profile(Struct, frozen=True):
    """A table of routes, and the prefix of its paths. `posting` is the last part of the path of a node that messages are posted to.

    `words` has what each operation reads, by its method and word.
    """

    name: str
    prefix: str
    routes: tuple[Route, ...]
    words: Mapping[tuple[str, str], Words]
    posting: str = "messages"


class Routes:
    """The resources of a profile: by the number of segments and the places of the fixed ones, then by what these are."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._resources: dict[int, dict[tuple[int, ...], dict[tuple[str, ...], list[Resource]]]]
        self._resources = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for route in routes:
            parts = route.path.strip("/").split("/")
            variables = {at: _compiled(part) for at, part in enumerate(parts) if "{" in part}
            fixed = tuple([at for at in range(len(parts)) if at not in variables])
            same = self._resources[len(parts)][fixed][tuple([parts[at] for at in fixed])]
            resource = next((one for one in same if one.variables == variables), None)
            if resource is None:
                resource = Resource(variables, {})
                same.append(resource)
            resource.routes[route.method] = route

    def find(self, raw_path: str) -> tuple[Resource, Mapping[str, str]] | None:
        """Return the resource of a path below the prefix, and its variables, or None."""
        segments = segments_of(raw_path)
        if segments is None:
            return None
        for fixed, named in self._resources.get(len(segments), {}).items():
            for resource in named.get(tuple([segments[at] for at in fixed]), ()):
                if (found := resource.match(segments)) is not None:
                    return resource, found
        return None


def segments_of(raw_path: str) -> tuple[str, ...] | None:
    """Return the decoded segments of a path; None if one is not UTF-8, or has a NUL, which no name has."""
    parts = raw_path.strip("/").split("/")
    if "%" not in raw_path and "\0" not in raw_path:
        return tuple(parts)
    try:
        segments = [unquote_to_bytes(part).decode() if "%" in part else part for part in parts]
    except UnicodeDecodeError:
        return None
    return None if any("\0" in segment for segment in segments) else tuple(segments)


def _compiled(part: str) -> str | re.Pattern[str]:
    if (whole := _VARIABLE.fullmatch(part)) is not None:
        return whole[1]
    pieces = _VARIABLE.split(part)
    texts = [f"(?P<{piece}>.+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)]
    return re.compile("".join(texts), re.DOTALL)


# The words of a request: headers and parameters that could change its meaning are read, or refused by their names (decision 146).

PRECONDITIONS: Final = frozenset({"if-match", "idempotency-key", "content-range"})
"""Headers that an operation has to honour, whatever it is. Without modification dates, `If-Unmodified-Since` is ignored (RFC 9110 13.1.4)."""

OF_CHANGES: Final = frozenset(
    {"if-none-match", "x-http-method-override", "x-http-method", "x-method-override"}
)
"""Those that an operation that changes something has to honour: to a GET the whole answer is always right."""

OF_MESSAGES: Final = "message-"
"""The prefix of the headers of messages."""

OF_ANSWERS: Final = frozenset(
    f"{OF_MESSAGES}{name}"
    for name in (
        "publisher",
        "published",
        "attempt",
        "failed",
        "deadline",
        "gap",
        "woken",
        "waited",
        "content-location",
    )
)
"""Headers of messages that the service alone sets: who passes a message on may leave them in place."""

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def beyond_words(
    method: str, headers: Iterable[str], query: Iterable[str], words: Words
) -> str | None:
    """Return which name in a request would be ignored, though it could change its meaning."""
    names = list(query)
    for name in names:
        if name not in words.query or names.count(name) > 1:
            return f"the parameter {name}"
    must = PRECONDITIONS if method in SAFE else PRECONDITIONS | OF_CHANGES
    of_none = method not in SAFE and not words.publishes
    for name in headers:
        small = name.lower()
        is_of_message = of_none and small.startswith(OF_MESSAGES) and small not in OF_ANSWERS
        if (small in must or is_of_message) and small not in words.headers:
            return f"the header {name}"
    return None


# Absolute links (RFC 8288), and what they begin with: a setting, what a trusted proxy reports, or the request itself.

HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]{1,45}\]|[A-Za-z0-9.-]{1,255})(?::[0-9]{1,5})?")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~/-]+")
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*/?")
_PAIR: Final = re.compile(r'\s*([!#-\'*+\-.^-z|~\w]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*')


class Link(Struct, frozen=True):
    """A link of an answer."""

    rel: str
    url: str
    type: str = ""

    def __str__(self) -> str:
        """Return the value of a field `Link`."""
        kind = f'; type="{self.type}"' if self.type else ""
        return f'<{self.url}>; rel="{self.rel}"{kind}'


def path(*segments: str) -> str:
    """Return a path of these segments, each percent-encoded: a slash in a name is %2F."""
    text = "/".join(segments)
    if _UNRESERVED.fullmatch(text) and text.count("/") < len(segments):  # as most are
        return f"/{text}"
    return "".join(["/" + quote(segment, safe="") for segment in segments])


def base_of(
    headers: CIMultiDictProxy[str], peer: str, settings: RestSettings, *, is_private: bool
) -> str:
    """Return what absolute links begin with, without a slash at the end.

    Raises:
        ProblemError: the host in the request is not one.

    """
    if settings.base_url:
        return settings.base_url.rstrip("/")
    scheme, host, prefix = "https" if is_private else "http", headers.get("Host", ""), ""
    if settings.trusted and is_trusted(peer, settings.trusted, loopback=False):
        scheme, host, prefix = _reported(headers, scheme, host)
    if scheme not in {"http", "https"} or not HOST.fullmatch(host) or split(f"//{host}") is None:
        raise bad_request("the host of the request is not the name or the address of a host")
    if not _PREFIX.fullmatch(prefix):
        raise bad_request("X-Forwarded-Prefix is not a path")
    return f"{scheme}://{host}{prefix.rstrip('/')}"


def _reported(headers: CIMultiDictProxy[str], scheme: str, host: str) -> tuple[str, str, str]:
    """Return scheme, host and prefix as the proxy reports them: `Forwarded` (RFC 7239), or else `X-Forwarded-*`."""
    if forwarded := headers.getall("Forwarded", ()):
        element = last_element(forwarded[-1])
        return element.get("proto", scheme).lower(), element.get("host", host), ""
    return (
        last_of("X-Forwarded-Proto", headers, scheme).lower(),
        last_of("X-Forwarded-Host", headers, host),
        last_of("X-Forwarded-Prefix", headers),
    )


def last_element(forwarded: str) -> dict[str, str]:
    """Return the pairs of the last element of a field `Forwarded`, which the next proxy has added.

    Raises:
        ProblemError: it cannot be read.

    """
    found: dict[str, str] = {}
    at = 0
    while at < len(forwarded):
        pair = _PAIR.match(forwarded, at)
        if pair is None:
            raise bad_request("Forwarded cannot be read")
        value = pair[3] if pair[2] is None else re.sub(r"\\(.)", r"\1", pair[2])
        found[pair[1].lower()] = value
        at = pair.end()
        if at < len(forwarded):
            if forwarded[at] not in ";,":
                raise bad_request("Forwarded cannot be read")
            if forwarded[at] == ",":
                found = {}
            at += 1
    return found
