"""Server-sent events: the messages of a topic as they arrive, and the counts of a queue as they change (HTML, 9.2).

An event of a topic has the number of its message as its id. A client that reconnects with `Last-Event-ID` continues after it. A
stream ends when the account may no longer read, when the service stops, or when the client does not read.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from pubqueue.faces.http.host import allow
from pubqueue.faces.rest.http import cors
from pubqueue.faces.rest.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.items.delivered import body_of, headers_of
from pubqueue.faces.rest.star.destinations import EVENTS, counts_of
from pubqueue.rules.retrieve import ReadNewer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.entities import Item
    from pubqueue.model.replies import NewerItems

BEAT: Final = 15.0
"""Seconds after which a comment is sent if there was no event: it shows that the connection is alive, and the account is checked again."""

EVERY: Final = 1.0
"""Seconds between two reads of the counts of a queue."""

PAGE: Final = 50
"""Messages that are read together."""

ROOM: Final = 256 << 10
"""Bytes of payloads that are read together; one message may have more."""

_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)


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
        cors.share(stream, exchange.request.headers, exchange.terms.cors_origins)
        await stream.prepare(exchange.request)
        try:
            yield stream
        except ProblemError as problem:
            with suppress(ConnectionError):
                await stream.write(b"event: ended\ndata: " + problem.document + b"\n\n")


async def _send_messages(exchange: Exchange, stream: web.StreamResponse, number: int) -> None:
    news = asyncio.Event()
    stop = exchange.face.broker.new_items.wait(exchange.node, news.set)
    try:
        while True:
            news.clear()
            _check_account(exchange)
            read = ReadNewer(exchange.by, exchange.node, number, most=PAGE, room=ROOM)
            newer: NewerItems = await exchange.ask(read)
            if number and not newer.kept:
                await stream.write(b"event: gap\ndata: {}\n\n")
            for item, payload in newer.items:
                await stream.write(_event("message", _document(exchange, item, payload), item.seq))
            number = newer.through
            if not newer.more:
                await _wait(exchange, stream, news)
    finally:
        stop()


async def _wait(exchange: Exchange, stream: web.StreamResponse, news: asyncio.Event) -> None:
    """Wait for an event; after a while without one, send a comment: then the rights are checked again."""
    try:
        async with asyncio.timeout(BEAT):
            await exchange.face.waiting.until(news.wait())
    except TimeoutError:
        await stream.write(b": the stream is open\n\n")


async def _send_counts(exchange: Exchange, stream: web.StreamResponse) -> None:
    known: dict[str, int] | None = None
    silent = 0.0
    while True:
        _check_account(exchange)
        described = await exchange.destined(is_queue=True)
        if described.depth is None:
            raise ProblemError(403, "forbidden", "counts are for owners and publishers")
        counts = await counts_of(exchange, described.depth)
        if counts != known:
            known, silent = counts, 0.0
            await stream.write(_event("counts", counts))
        elif silent >= BEAT:
            silent = 0.0
            await stream.write(b": the stream is open\n\n")
        silent += EVERY
        await exchange.face.waiting.until(asyncio.sleep(EVERY))


def _check_account(exchange: Exchange) -> None:
    """Refuse to continue for a user that was removed, or has another password.

    Raises:
        ProblemError: it was, or has.

    """
    if not exchange.face.accounts.holds(exchange.proven):
        raise ProblemError(401, "unauthorized", "the user is gone, or has other credentials")


def _event(name: str, document: dict[str, Any], number: int | None = None) -> bytes:
    begin = "" if number is None else f"id: {number}\n"
    return f"{begin}event: {name}\ndata: ".encode() + msgspec.json.encode(document) + b"\n\n"


def _document(exchange: Exchange, item: Item, payload: bytes) -> dict[str, Any]:
    """Return a message as JSON: its URL, its usual headers, its type, and its body as text or in base64."""
    kind, body = body_of(item, payload)
    headers: dict[str, str] = {}
    for name, value in headers_of(item, exchange.reply_url):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    found: dict[str, Any] = {
        "message": exchange.url("topics", exchange.node, "messages", item.id),
        "headers": headers,
        "type": kind,
    }
    try:
        return found | {"text": body.decode()}
    except UnicodeDecodeError:
        return found | {"base64": b64encode(body).decode()}
