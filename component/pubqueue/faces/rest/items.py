"""From requests to items that are published, and from items to answers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from pubqueue.faces.http.host import split
from pubqueue.faces.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.links import OF_ANSWERS, OF_MESSAGES
from pubqueue.faces.waiting import came_for
from pubqueue.model.entities import NO_TIME, Draft, ItemId, Millis, account_of, seconds
from pubqueue_xeps.wire.names import ILLEGAL, is_clean
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import unwrap, unwrap_in_steps, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from pubqueue.model.entities import Item, Jid
    from pubqueue_xeps.wire.payloads.wrapper import Body


# From the headers and the body of a request, or of a part of a batch, to the item that is published: one table.

OWN_PREFIX: Final = "message-header-"
"""Headers `Message-Header-Foo` are headers `Foo` of the item."""

REPLY_TO: Final = "reply-to"
"""The header with the node that replies go to, as in the client library."""

CORRELATION: Final = "correlation-id"


class Wishes(Struct, gc=False):
    """The properties of the item in the headers."""

    id: str = ""
    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    group: str = ""
    type: str | None = None
    kept: list[tuple[str, str]] = []
    links: list[str] = []


def _id(wishes: Wishes, name: str, value: str) -> None:
    wishes.id = decoded(value, name)
    if not wishes.id:
        raise bad_request("Message-Id is empty")


def _priority(wishes: Wishes, name: str, value: str) -> None:
    wishes.priority = whole(value, name)


def _delay(wishes: Wishes, name: str, value: str) -> None:
    wishes.delay = span(value, name)


def _ttl(wishes: Wishes, name: str, value: str) -> None:
    wishes.ttl = span(value, name)


def _group(wishes: Wishes, name: str, value: str) -> None:
    wishes.group = decoded(value, name)


def _type(wishes: Wishes, name: str, value: str) -> None:
    wishes.type = plain(value, name)


def _add_link(wishes: Wishes, name: str, value: str) -> None:
    wishes.links.append(plain(value, name))


def _kept(wishes: Wishes, name: str, value: str) -> None:
    wishes.kept.append((name, plain(value, name)))


def _kept_small(wishes: Wishes, name: str, value: str) -> None:
    wishes.kept.append((name.lower(), plain(value, name)))


# fmt: off
ROWS: Final[Mapping[str, Callable[[Wishes, str, str], None]]] = MappingProxyType({
    "message-id":          _id,
    "message-priority":    _priority,
    "message-delay":       _delay,
    "message-ttl":         _ttl,
    "message-max-ttl":     _ttl,
    "message-group":       _group,
    "content-type":        _type,
    "link":                _add_link,
    CORRELATION:           _kept_small,
    "traceparent":         _kept_small,
    "tracestate":          _kept_small,
    "baggage":             _kept_small,
    "content-language":    _kept,
    "content-encoding":    _kept,
    "content-disposition": _kept,
    "content-location":    _kept,
})
# fmt: on
"""Headers that belong to the item, by their names in lower case; all others belong to the request."""


_SEVERAL: Final = frozenset({_add_link, _kept, _kept_small})
"""Those of which a message may have several; of the others one would be ignored."""

MAX_SHOWN: Final = 100
"""Characters of a name that are repeated."""


def wishes_of(headers: Iterable[tuple[str, str]]) -> Wishes:
    """Return the properties of an item in these headers.

    Raises:
        ProblemError: one cannot be read.

    """
    wishes, once = Wishes(), set[object]()
    for name, value in headers:
        small = name.lower()
        if (read := ROWS.get(small)) is not None:
            if read in once:
                raise bad_request(f"{name} occurs twice")
            once |= {read} - _SEVERAL
            read(wishes, str(name), value)
        elif small.startswith(OWN_PREFIX):
            given = decoded(name[len(OWN_PREFIX) :], "the name of a header")
            wishes.kept.append((given, decoded(value, name)))
        elif small.startswith(OF_MESSAGES) and small not in OF_ANSWERS:
            raise bad_request(f"{name[:MAX_SHOWN]} is not a header of messages")
    return wishes


def draft_of(
    wishes: Wishes, body: bytes, new_id: Callable[[], str], node_of: Callable[[str], str | None]
) -> Draft:
    """Return the item; without `Message-Id` under a new id. `node_of` returns which of our nodes is posted to at a URL, or None.

    Raises:
        ProblemError: a link or a header cannot be read.

    """
    kept = [(str(name), value) for name, value in wishes.kept]
    for link in links_in(wishes.links, MAX_LINKS):
        node = node_of(link.target) if REPLY_TO in link.rels else None
        kept.append(("Link", link.text) if node is None else (REPLY_TO, node))
    try:
        wrapped = wrap(body, wishes.type)
    except ValueError as problem:
        raise bad_request(f"{problem}") from None
    if wrapped.header is not None:
        kept.append((CONTENT_TYPE, wrapped.header))
    for name, value in kept:
        if not name or ILLEGAL.search(name) or ILLEGAL.search(value):
            raise bad_request("a header has a character that XML does not have")
    return Draft(
        *(ItemId(wishes.id or new_id()), wrapped.xml, wishes.priority, wishes.delay, wishes.ttl),
        headers=tuple(kept),
        type=wrapped.space,
        group=wishes.group,
    )


# From an item to the headers and the body of an answer: one table, the service's headers first.

DISPOSITION: Final = "Content-Disposition"
ATTACHED: Final = "attachment"
_DISPOSITION: Final = re.compile(r"\s*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)\s*((?:;.*)?)", re.DOTALL)

UNTYPED: Final = "application/octet-stream"
"""The content type of a body whose publisher gave none, or an empty one."""

MAX_WAITED: Final = 4_096
"""Bytes of the header with what has come for an item; many clients and proxies read few more. More is at the link `waited` alone."""

OWN_RELATIONS: Final = frozenset(
    {
        *("acknowledgement", "acknowledge-next", "consume-next", "consumer", "generator"),
        *("hold", "next", "self", "signal", "waited"),
    }
)
"""Relations of links that the service adds to a message. Links of publishers with one of these are not passed on."""

# fmt: off
NAMES: Final[Mapping[str, str]] = MappingProxyType({
    CORRELATION:           "Correlation-Id",
    "traceparent":         "traceparent",
    "tracestate":          "tracestate",
    "baggage":             "baggage",
    "content-language":    "Content-Language",
    "content-encoding":    "Content-Encoding",
    "content-disposition": "Content-Disposition",
    "content-location":    "Message-Content-Location",
})
# fmt: on
"""Headers of items that are headers of HTTP too, by their names in lower case; others are `Message-Header-*`."""


def body_of(item: Item, payload: bytes) -> tuple[str, bytes]:
    """Return content type and body."""
    return _shown(unwrap(payload, _type_in(item))) if payload else (UNTYPED, b"")


def body_in_steps(item: Item, payload: bytes) -> Generator[None, None, tuple[str, bytes]]:
    """Return content type and body of a large payload, with pauses between the steps in which it is decoded."""
    body = yield from unwrap_in_steps(payload, _type_in(item))
    return _shown(body)


def _type_in(item: Item) -> str | None:
    return next((value for name, value in item.headers if name.lower() == CONTENT_TYPE), None)


def _shown(body: Body) -> tuple[str, bytes]:
    return body.type if body.type and _is_carried(body.type) else UNTYPED, body.data


def headers_of(item: Item, reply_url: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the headers of a message, without content type, links and lock; `reply_url` returns the URL to post to a node."""
    found = [
        ("Message-Id", encoded(item.id)),
        ("Message-Publisher", encoded(account_of(item.publisher))),
        ("Message-Published", moment(item.published)),
    ]
    if item.priority:
        found.append(("Message-Priority", f"{item.priority}"))
    if item.group:
        found.append(("Message-Group", encoded(item.group)))
    if item.expires is not None:
        found.append(("Message-Expires", moment(item.expires)))
    if item.acquired:
        found.append(("Message-Attempt", f"{item.acquired}"))
    if item.failed:
        found.append(("Message-Failed", f"{item.failed}"))
    if item.wait is not None:
        found += woken_of(item)
        if len(came := came_for(item.wait)) <= MAX_WAITED:
            found.append(("Message-Waited", came))
    found += [row for given in item.headers for row in fields_for(*given, reply_url)]
    if all(name != DISPOSITION for name, _ in found):
        found.append((DISPOSITION, ATTACHED))
    return found


def woken_of(item: Item) -> list[tuple[str, str]]:
    """Return the header that says what has woken an item, if it was held."""
    wait = item.wait
    return [] if wait is None or wait.woken is None else [("Message-Woken", wait.woken.value)]


def fields_for(name: str, value: str, reply_url: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the header of HTTP for a header of the item, if there is one."""
    small = name.lower()
    if small == CONTENT_TYPE:
        return []
    if small == REPLY_TO:
        return [("Link", f'<{reply_url(value)}>; rel="reply-to"')]
    if small == "link":
        return [("Link", text) for text in _links_to_pass_on(value)]
    if small == DISPOSITION.lower():
        value = attached(value)
    if small in NAMES and _is_carried(value):
        return [(NAMES[small], value)]
    return [(f"Message-Header-{quote(name, safe=_IN_TOKENS)}", encoded(value))]


def attached(disposition: str) -> str:
    """Return the `Content-Disposition` of a publisher for a browser, which is to save a message and never to show it.

    What is no attachment becomes one, with the parameters it has, such as the name of the file (RFC 6266 4).
    """
    found = _DISPOSITION.fullmatch(disposition)
    if found is None:
        return ATTACHED
    return disposition if found[1].lower() == ATTACHED else ATTACHED + found[2]


def _links_to_pass_on(value: str) -> list[str]:
    """Return the links of a publisher that can be beside ours: a worker must not take one for the lock of the message."""
    try:
        found = list(links_in([value]))
    except ProblemError:
        return []  # of another protocol, where it is a text as any other
    return [link.text for link in found if OWN_RELATIONS.isdisjoint(link.rels)]


def _is_carried(value: str) -> bool:
    """Return whether a header of HTTP can have this value unchanged."""
    return is_clean(value) and value == value.strip()


# Fields `Link` of requests (RFC 8288): the links of a publisher.

_TARGET: Final = re.compile(r"\s*<([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*)>")
"""The target in the characters of a URI (RFC 3986 2)."""
_PARAMETER: Final = re.compile(
    r'\s*;\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?'
)
_COMMA: Final = re.compile(r"[\s,]*(?:,|$)[\s,]*")

REPLIES: Final = ("reply-to", "reply-to-once", "reply-to-batch", "reply-to-batch-once")
"""The relations by which a consumer replies."""


MAX_LINKS: Final = 16
"""Links of a message that is published."""


class GivenLink(Struct, frozen=True):
    """A link of a request, and its original text."""

    target: str
    rels: tuple[str, ...]
    text: str


def links_in(fields: Iterable[str], most: int | None = None) -> Iterator[GivenLink]:
    """Yield the links of these fields.

    Raises:
        ProblemError: one cannot be read, or there are more than `most`.

    """
    count = 0
    for field in fields:
        at = 0
        while at < len(field):
            count += 1
            if most is not None and count > most:
                raise ProblemError(
                    431, "headers-too-large", f"a message has up to {most} links", limit=most
                )
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


# Values of headers: percent-encoded outside visible ASCII, numbers, spans and moments.

CARRIED: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""Characters that are not encoded in `Message-*`."""

TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

_IN_TOKENS: Final = "!#$&'*+^`|"
"""Characters of a header's name that are not encoded either, as well as those that `quote` never encodes."""

_SPAN: Final = re.compile(r"\d{1,12}(?:\.\d{0,9})?")
_WHOLE: Final = re.compile(r"[+-]?\d{1,9}")


def encoded(text: str) -> str:
    """Return a value of `Message-*`: characters that a header cannot carry are percent-encoded as UTF-8."""
    if text.isascii() and is_clean(text) and "%" not in text and text == text.strip():
        return text
    body = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - len(text.rstrip(" ")) if body else 0
    return "%20" * before + quote(body, safe=CARRIED) + "%20" * after


def decoded(text: str, name: str) -> str:
    """Return the meaning of a value of `Message-*`.

    Raises:
        ProblemError: it is not UTF-8, or has a NUL.

    """
    if "%" not in text and text.isascii():
        return text
    try:
        found = unquote_to_bytes(text.encode()).decode()
    except UnicodeError:
        raise bad_request(f"{name} is not UTF-8") from None
    return without_nul(found, name)


def without_nul(text: str, name: str) -> str:
    """Return the text, if every store can keep it.

    Raises:
        ProblemError: it has a NUL.

    """
    if "\0" in text:
        raise bad_request(f"{name} has a NUL character")
    return text


def plain(text: str, name: str) -> str:
    """Return a value as it is sent.

    Raises:
        ProblemError: it is not UTF-8.

    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad_request(f"{name} is not UTF-8") from None
    return str(text)


def whole(text: str, name: str) -> int:
    """Return a whole number.

    Raises:
        ProblemError: it is invalid.

    """
    if not _WHOLE.fullmatch(text.strip()):
        raise bad_request(f"{name} is a whole number")
    return int(text)


def span(text: str, name: str) -> Millis:
    """Return a number of seconds, with or without a fraction.

    Raises:
        ProblemError: it is invalid.

    """
    if not _SPAN.fullmatch(text.strip()):
        raise bad_request(f"{name} is a number of seconds")
    return seconds(float(text))


def moment(at: Millis) -> str:
    """Return a moment as RFC 3339 writes it."""
    when = datetime.fromtimestamp(at / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def account(jid: Jid) -> str:
    """Return an account as the value of a header."""
    return encoded(jid)
