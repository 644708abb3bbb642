"""Subscribers of a destination, and server-sent events for those that listen."""

from __future__ import annotations

import asyncio
import re
import secrets
from base64 import b64encode
from codecs import getincrementaldecoder
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web
from lxml import etree

from pubqueue.faces.http.host import allow, send, send_pieces
from pubqueue.faces.http.problems import ProblemError, bad_request
from pubqueue.faces.push import targets
from pubqueue.faces.rest import items, push
from pubqueue.faces.rest.batches import ATOM, parsed
from pubqueue.faces.rest.exchange import answer, of_either, share
from pubqueue.faces.rest.items import headers_of
from pubqueue.faces.rest.star.destinations import EVENTS, counts_of
from pubqueue.model.entities import NUMBER
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import Enable, ListRegistrations, Register, Unregister
from pubqueue.rules.retrieve import ReadNewer
from pubqueue_xeps.wire.payloads.wrapper import is_utf8

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.entities import Item
    from pubqueue.model.replies import NewerItems


# Subscribers of a destination: targets that its messages are pushed to.

MAX_BODY: Final = 65_536
FORM: Final = "application/x-www-form-urlencoded"
XML: Final = frozenset({"application/atom+xml", "applicatin/atom+xml", "application/xml"})
"""Media types of a registration; the second is the spelling of an early client."""

UNDECLARED: Final = b"<atom:link "
RELS: Final = frozenset({push.PLAIN, push.ONCE})
MEDIA_TYPE: Final = "application/atom+xml"
PAGE: Final = 500

ACTIVE: Final = "active"
DISABLED: Final = "disabled"
STATES: Final = (ACTIVE, DISABLED)


async def _set(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Disable or enable a registration."""
    if exchange.request.content_type != FORM:
        raise ProblemError(415, "media-type", f"the body is {FORM}")
    state = _field(await exchange.body(MAX_BODY), "state")
    if state not in STATES:
        raise bad_request(f"the state is {' or '.join(STATES)}")
    await exchange.destined(is_queue=is_queue)
    name = exchange.names["name"]
    wanted = Enable(exchange.by, exchange.node, name, disabled=state == DISABLED)
    kept: Registrations = await exchange.ask(wanted)
    if kept.entries[0].disabled:
        exchange.face.pushing.end(name)
    else:
        exchange.face.pushing.look(kept.entries[0])
    return answer(204)


async def _post(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Register a target for the messages of a destination."""
    body = await exchange.body(MAX_BODY)
    rel, href = _wanted(exchange.request.content_type, body)
    check_target(exchange, href)
    await exchange.destined(is_queue=is_queue)
    position = 0
    if not is_queue:
        newer: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
        position = newer.through
    name = secrets.token_hex(8)
    options = push.PushWords(rel, href, exchange.base + exchange.profile.prefix)
    row = Registration(
        *(name, exchange.by.account, exchange.node, is_queue, push.written(options)),
        position=position,
    )
    kept: Registrations = await exchange.ask(Register(exchange.by, row))
    exchange.face.pushing.look(kept.entries[0])
    secret = targets.written(exchange.face.pusher.secret(name))
    where = exchange.url(*exchange.destination(is_queue=is_queue), "subscribers", name)
    document = {"id": name, "rel": rel, "href": href, "secret": secret}
    headers = [("Location", where), ("Cache-Control", "no-store")]
    return answer(201, headers, body=msgspec.json.encode(document), kind="application/json")


def check_target(exchange: Exchange, href: str) -> None:
    """Refuse a target that is not a URL, or that may not be called.

    Raises:
        ProblemError: it is such a target.

    """
    try:
        target = targets.read(href)
    except targets.TargetError as problem:
        raise bad_request(f"{problem}") from None
    if not targets.is_allowed(target, exchange.settings.push.push_to):
        detail = "messages may not be pushed to this URL"
        raise ProblemError(403, "target-not-allowed", detail)


def _wanted(media: str, body: bytes) -> tuple[str, str]:
    """Return relation and URL of the link or the form in a body."""
    if media == FORM:
        return push.PLAIN, _field(body, "subscriber")
    if media not in XML:
        detail = f"the body is {MEDIA_TYPE} or {FORM}"
        raise ProblemError(415, "media-type", detail)
    if body.lstrip().startswith(UNDECLARED) and b"xmlns:atom" not in body:
        body = body.replace(UNDECLARED, UNDECLARED + f'xmlns:atom="{ATOM}" '.encode(), 1)
    root = parsed(body)
    links = [root] if _is_link(root) else [one for one in root if _is_link(one)]
    if len(links) != 1:
        raise bad_request("the body has one link")
    rel, href = links[0].get("rel", ""), (links[0].get("href") or "").strip()
    if rel not in RELS or not href:
        raise bad_request(f"the link has a URL and one of the relations {', '.join(sorted(RELS))}")
    return rel, href


def _is_link(element: etree._Element) -> bool:
    return element.tag in {"link", f"{{{ATOM}}}link"}


def _field(body: bytes, wanted: str) -> str:
    """Return the one value of a field of a form."""
    try:
        fields = parse_qsl(body.decode(), strict_parsing=True, errors="strict")
    except ValueError:
        raise bad_request("the form cannot be read") from None
    found = [value for name, value in fields if name == wanted]
    if len(fields) != 1 or not found or not found[0]:
        raise bad_request(f"the form has one {wanted}, and nothing else")
    return items.without_nul(found[0], wanted)


async def _list(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Return the targets of a destination."""
    await exchange.destined(is_queue=is_queue)
    after = items.without_nul(exchange.request.query.get("after", ""), "after")
    page: Registrations = await exchange.ask(
        ListRegistrations(exchange.by, exchange.node, after, PAGE)
    )
    feed = etree.Element(f"{{{ATOM}}}feed", nsmap={None: ATOM})  # type: ignore[dict-item]  # None is the default namespace
    for row in page.entries:
        if not isinstance(push.read(row.words), push.PullWords):
            feed.append(_link(exchange, row))
    links = []
    if page.more:
        place = exchange.destination(is_queue=is_queue)
        tail = f"?after={page.entries[-1].name}"
        links.append(exchange.link("next", *place, "subscribers", tail=tail))
    return answer(200, links=links, body=etree.tostring(feed), kind=MEDIA_TYPE)


async def _get(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Return one target of a destination."""
    await exchange.destined(is_queue=is_queue)
    request = ListRegistrations(exchange.by, exchange.node, name=exchange.names["name"])
    page: Registrations = await exchange.ask(request)
    link = _link(exchange, page.entries[0])
    return answer(200, body=etree.tostring(link), kind=MEDIA_TYPE)


async def _delete(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """End the pushes of messages to a target."""
    await exchange.destined(is_queue=is_queue)
    name = exchange.names["name"]
    await exchange.ask(Unregister(exchange.by, exchange.node, name))
    exchange.face.pushing.end(name)
    return answer(204)


def _link(exchange: Exchange, row: Registration) -> etree._Element:
    """Return a registration as an Atom link, with its state."""
    options = push.read(row.words)
    link = etree.Element(f"{{{ATOM}}}link", nsmap={None: ATOM})  # type: ignore[dict-item]  # None is the default namespace
    kind = "queues" if row.queueing else "topics"
    values = {
        "rel": options.rel,
        "href": options.href,
        "id": row.name,
        "self": exchange.url(kind, row.node, "subscribers", row.name),
        "state": DISABLED if row.disabled else ACTIVE,
        "failures": f"{row.failures}",
        "error": row.error,
    }
    for name, value in values.items():
        link.set(name, value)
    return link


post_to_queue, post_to_topic = of_either(_post)
list_of_queue, list_of_topic = of_either(_list)
get_of_queue, get_of_topic = of_either(_get)
delete_of_queue, delete_of_topic = of_either(_delete)
set_of_queue, set_of_topic = of_either(_set)


# Server-sent events: the messages of a topic as they arrive, and the counts of a queue as they change (HTML, 9.2).
#
# An event of a topic has the number of its message as its id. A client that reconnects with `Last-Event-ID` continues after it. A
# stream ends when the account may no longer read, when the service stops, or when the client does not read.

BEAT: Final = 15.0
"""Seconds after which a comment is sent if there was no event: it shows that the connection is alive, and the account is checked again."""

EVERY: Final = 1.0
"""Seconds between two reads of the counts of a queue."""

EVENTS_PAGE: Final = 50
"""Messages that are read together."""

ROOM: Final = 256 << 10
"""Bytes of payloads that are read together; one message may have more."""

_NUMBER: Final = re.compile(NUMBER)


async def of_topic(exchange: Exchange) -> web.StreamResponse:
    """Send each message of a topic, from now on or after the last one of the client."""
    await exchange.destined(is_queue=False)
    number = _last(exchange)
    if number is None:
        newest: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
        number = newest.through
    async with _stream(exchange) as stream:
        await _send_messages(exchange, stream, number)
    return stream


async def of_queue(exchange: Exchange) -> web.StreamResponse:
    """Send the counts of a queue, at first and whenever they have changed; for owners and publishers."""
    described = await exchange.destined(is_queue=True)
    if described.depth is None:
        raise ProblemError(403, "forbidden", "counts are for owners and publishers")
    async with _stream(exchange) as stream:
        await _send_counts(exchange, stream)
    return stream


def _last(exchange: Exchange) -> int | None:
    """Return the number of the client's last message, None if it has none.

    Raises:
        ProblemError: it is not a number.

    """
    header = exchange.request.headers.get("Last-Event-ID", "")
    if header and not _NUMBER.fullmatch(header):
        raise bad_request("Last-Event-ID is the id of an event")
    return int(header) if header else None


@asynccontextmanager
async def _stream(exchange: Exchange) -> AsyncIterator[web.StreamResponse]:
    """Begin a stream, counted as a request that waits. A refusal within it is its last event."""
    headers = {"Content-Type": EVENTS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = web.StreamResponse(headers=headers)
    with exchange.face.waiting.counted(exchange.by, BEAT):
        allow(None)
        share(stream, exchange.request.headers, exchange.settings.cors_origins)
        await stream.prepare(exchange.request)
        try:
            yield stream
        except ProblemError as problem:
            with suppress(ConnectionError):
                await send(stream, b"event: ended\ndata: " + problem.document + b"\n\n")


async def _send_messages(exchange: Exchange, stream: web.StreamResponse, number: int) -> None:
    news = asyncio.Event()
    stop = exchange.face.broker.new_items.wait(exchange.node, news.set)
    try:
        while True:
            news.clear()
            exchange.check_login()
            read = ReadNewer(exchange.by, exchange.node, number, most=EVENTS_PAGE, room=ROOM)
            newer: NewerItems = await exchange.ask(read)
            if number and not newer.kept:
                await send(stream, b"event: gap\ndata: {}\n\n")
            number, more, found = newer.through, newer.more, list(newer.items)
            del newer  # each message is kept once, as its body
            while found:
                await _send_message(exchange, stream, *found.pop(0))
            if not more:
                await _wait(exchange, stream, news)
    finally:
        stop()


async def _wait(exchange: Exchange, stream: web.StreamResponse, news: asyncio.Event) -> None:
    """Wait for an event; after a while without one, send a comment: then the rights are checked again."""
    try:
        async with asyncio.timeout(BEAT):
            await exchange.wait(news.wait())
    except TimeoutError:
        await send(stream, b": the stream is open\n\n")


async def _send_counts(exchange: Exchange, stream: web.StreamResponse) -> None:
    known: dict[str, int] | None = None
    silent = 0.0
    while True:
        exchange.check_login()
        described = await exchange.destined(is_queue=True)
        if described.depth is None:
            raise ProblemError(403, "forbidden", "counts are for owners and publishers")
        counts = await counts_of(exchange, described.depth)
        if counts != known:
            known, silent = counts, 0.0
            await send(stream, _event("counts", counts))
        elif silent >= BEAT:
            silent = 0.0
            await send(stream, b": the stream is open\n\n")
        silent += EVERY
        await exchange.wait(asyncio.sleep(EVERY))


async def _send_message(
    exchange: Exchange, stream: web.StreamResponse, item: Item, payload: bytes
) -> None:
    kind, body = await exchange.rendered(item, payload)
    del payload
    await send_pieces(stream, _message(exchange, item, kind, body), len(body))


def _event(name: str, document: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(document) + b"\n\n"


TEXT: Final = 60 << 10
"""Bytes of a body that are shown at once; a multiple of three, so that pieces of base64 are one."""


def _message(exchange: Exchange, item: Item, kind: str, body: bytes) -> Iterator[bytes]:
    """Yield the event of a message: its URL, its usual headers, its type, and its body as text or in base64.

    Each piece is made when it is wanted: a client that does not read has only the body kept for it.
    """
    headers: dict[str, str] = {}
    for name, value in headers_of(item, exchange.reply_url):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    url = exchange.url("topics", exchange.node, "messages", item.id)
    document = msgspec.json.encode({"message": url, "headers": headers, "type": kind})
    is_text = is_utf8(body)
    decode = getincrementaldecoder("utf-8")().decode
    field = b"text" if is_text else b"base64"
    begin = b'id: %d\nevent: message\ndata: %b,"%b":"' % (item.seq, document[:-1], field)
    for at in range(0, len(body) or 1, TEXT):
        piece = body[at : at + TEXT]
        shown = msgspec.json.encode(decode(piece))[1:-1] if is_text else b64encode(piece)
        yield b"".join((begin, shown, b'"}\n\n' if at + TEXT >= len(body) else b""))
        begin = b""
