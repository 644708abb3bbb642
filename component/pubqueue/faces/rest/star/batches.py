"""Batches: an Atom feed or a multipart body, published in one commit, all or none."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp.helpers import parse_mimetype

from pubqueue.faces.rest.batches import atom, multipart
from pubqueue.faces.rest.batches.entry import at
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http.problems import ProblemError, bad_request, not_found
from pubqueue.faces.rest.items.published import draft_of
from pubqueue.faces.rest.star import keys
from pubqueue.faces.rest.star.publishing import message_url, publish
from pubqueue.model.entities import ItemId
from pubqueue.model.records import PublishKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp import web

    from pubqueue.faces.rest.batches.entry import Entry
    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.entities import Draft

URI_LIST: Final = "text/uri-list"
_COUNT: Final = re.compile(r"[1-9]\d{0,3}")


async def post_to_queue(exchange: Exchange) -> web.Response:
    """Publish a batch to a queue."""
    return await _post(exchange, is_queue=True)


async def post_to_topic(exchange: Exchange) -> web.Response:
    """Publish a batch to a topic."""
    return await _post(exchange, is_queue=False)


async def _post(exchange: Exchange, *, is_queue: bool) -> web.Response:
    given = keys.given_key(exchange)
    entries = await entries_in(exchange)
    made = keys.new_key(exchange, purpose(len(entries)))
    if given is None and any(entry.wishes.id for entry in entries):
        given = PublishKey(f"batch.{made}", exchange.terms.once_for)
    drafts = drafts_of(exchange, entries, lambda at: f"{made}-{at}")
    reply = await publish(exchange, drafts, is_queue=is_queue, key=given)
    name = made if given is None else given.name
    where = url(exchange, name, len(reply.ids), is_queue=is_queue)
    body = listed(exchange, reply.ids, is_queue=is_queue)
    return answer(201, [("Location", where)], body=body, kind=URI_LIST)


async def get_of_queue(exchange: Exchange) -> web.Response:
    """Return the URLs of a batch that was published to a queue."""
    return await _get(exchange, is_queue=True)


async def get_of_topic(exchange: Exchange) -> web.Response:
    """Return the URLs of a batch that was published to a topic."""
    return await _get(exchange, is_queue=False)


async def _get(exchange: Exchange, *, is_queue: bool) -> web.Response:
    key, count = exchange.names["key"], exchange.names["count"]
    if not _COUNT.fullmatch(count):
        raise not_found()
    await exchange.destined(is_queue=is_queue)
    if keys.is_valid(exchange, key, purpose(int(count))):
        # no entry had an id of its own, so the ids follow from the key
        ids: Sequence[ItemId] | None = [ItemId(f"{key}-{at}") for at in range(int(count))]
    else:
        ids = await keys.published_under(exchange, key)
    if ids is None or len(ids) != int(count):
        raise not_found("there is no such batch, or it is forgotten")
    return answer(200, body=listed(exchange, ids, is_queue=is_queue), kind=URI_LIST)


def purpose(count: int) -> str:
    """Return the purpose of the key of a batch of so many messages."""
    return f"batch of {count}"


def url(exchange: Exchange, name: str, count: int, *, is_queue: bool) -> str:
    """Return where the URLs of a batch can be read again."""
    place = exchange.destination(is_queue=is_queue)
    return exchange.url(*place, "batches", name, tail=f";n={count}")


def listed(exchange: Exchange, ids: Sequence[ItemId], *, is_queue: bool) -> bytes:
    """Return the URLs of messages, a line each (RFC 2483)."""
    urls = [message_url(exchange, one, is_queue=is_queue) for one in ids]
    return "".join([f"{one}\r\n" for one in urls]).encode()


async def drafts_in(exchange: Exchange) -> tuple[Draft, ...]:
    """Return the items that a batch publishes; those without an id have new ones.

    Raises:
        ProblemError: the batch, or an entry, has an error.

    """
    entries = await entries_in(exchange)
    return drafts_of(exchange, entries, lambda _at: exchange.face.new_id())


def drafts_of(
    exchange: Exchange, entries: Sequence[Entry], new_id: Callable[[int], str]
) -> tuple[Draft, ...]:
    """Return the items of entries.

    Raises:
        ProblemError: an entry has an error.

    """
    found: list[Draft] = []
    for index, entry in enumerate(entries):
        try:
            made = draft_of(entry.wishes, entry.body, partial(new_id, index), exchange.node_at)
        except ProblemError as problem:
            raise at(index, problem) from None
        if (size := len(entry.body)) > exchange.terms.max_body:
            raise at(index, too_large(exchange.terms.max_body, size))
        found.append(made)
    return tuple(found)


def too_large(limit: int, size: int) -> ProblemError:
    """Return the problem of an entry above the limit of a message."""
    detail = f"a message has up to {limit} bytes here, and this one has {size}"
    return ProblemError(413, "too-large", detail, limit=limit)


async def entries_in(exchange: Exchange) -> list[Entry]:
    """Return the entries of the batch in a request.

    Raises:
        ProblemError: it is not a batch, or an entry has an error.

    """
    request, terms = exchange.request, exchange.terms
    if request.content_type not in {atom.MEDIA_TYPE, multipart.MEDIA_TYPE}:
        detail = f"a batch is {atom.MEDIA_TYPE} or {multipart.MEDIA_TYPE}"
        raise ProblemError(415, "media-type", detail)
    body = await exchange.body(terms.max_batch_body)
    if request.content_type == atom.MEDIA_TYPE:
        entries = await asyncio.to_thread(atom.entries_of, body, terms.max_batch)
    else:
        boundary = boundary_of(request.headers["Content-Type"])
        entries = multipart.entries_of(body, boundary, terms.max_batch)
    if not entries:
        raise bad_request("the batch is empty")
    return entries


def boundary_of(content_type: str) -> str:
    """Return the boundary that a media type names, or an empty text."""
    return parse_mimetype(content_type).parameters.get("boundary", "")
