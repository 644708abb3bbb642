"""Creating messages: by a plain POST, or under an id that is used once, so that a request can be repeated."""

from __future__ import annotations

import re
import secrets
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.faces.rest.hornetq.links import linked
from pubqueue.faces.rest.http.links import Link
from pubqueue.faces.rest.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.items import values
from pubqueue.faces.rest.star.keys import published_under
from pubqueue.faces.rest.star.publishing import draft_in, publish
from pubqueue.model.entities import Millis
from pubqueue.model.records import PublishKey

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.entities import Draft, ItemId

PRIORITIES: Final = range(10)
"""Priorities of JMS. Others are ignored."""

_NUMBER: Final = re.compile(r"-?\d{1,15}", re.ASCII)


async def create(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    """Publish a message; without `dups_ok` the client is redirected to a URL with an id of its own instead."""
    if not exchange.terms.dups_ok:
        return await _redirect(exchange, is_queue=is_queue)
    draft = wished(exchange, await draft_in(exchange))
    reply = await publish(exchange, (draft,), is_queue=is_queue)
    item = reply.ids[0] if reply.ids else draft.id
    return _created(exchange.url(*_place(exchange, is_queue=is_queue), "create"), item)


async def create_with_id(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    """Publish a message under an id, unless one was published under it: that is 201 too, whatever is sent now."""
    key = key_of(exchange)
    try:
        draft = wished(exchange, await draft_in(exchange))
        reply = await publish(exchange, (draft,), is_queue=is_queue, key=key)
        ids = reply.ids or (draft.id,)
    except ProblemError:
        found = await published_under(exchange, key.name)
        if found is None:
            raise
        ids = found
    return _created(_unused(exchange, is_queue=is_queue), ids[0])


def key_of(exchange: Exchange) -> PublishKey:
    """Return the key of the id in the path; ids of clients and ours are one space of an account."""
    mark = blake2b(exchange.names["id"].encode(), digest_size=20).hexdigest()
    return PublishKey(f"id.{mark}", exchange.terms.once_for)


async def _redirect(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    """Return an id that is unused. The body is not read."""
    if is_queue is None:
        await exchange.described()
    else:
        await exchange.destined(is_queue=is_queue)
    where = _unused(exchange, is_queue=is_queue)
    return linked(307, [Link("create-next", where)], [("Location", where)])


def _created(following: str, item: ItemId) -> web.Response:
    name = ("Message-Id", values.encoded(item))
    return linked(201, [Link("create-next", following)], [name])


def _unused(exchange: Exchange, *, is_queue: bool | None) -> str:
    """Return the URL to which a message can be posted under an unused id."""
    place = _place(exchange, is_queue=is_queue)
    return exchange.url(*place, "create", secrets.token_hex(16))


def _place(exchange: Exchange, *, is_queue: bool | None) -> tuple[str, str]:
    if is_queue is None:
        return "nodes", exchange.node
    return exchange.destination(is_queue=is_queue)


def wished(exchange: Exchange, draft: Draft) -> Draft:
    """Return the item with the properties in the query.

    Raises:
        ProblemError: a value of the query cannot be read.

    """
    query = exchange.request.query
    if query.get("durable", "true").lower() not in {"true", "false"}:
        raise bad_request("durable is true or false")
    priority, ttl = _number(query.get("priority")), _number(query.get("ttl"))
    expiration = _number(query.get("expiration"))
    if priority in PRIORITIES:
        draft = replace(draft, priority=priority)
    if ttl:
        draft = replace(draft, ttl=_span(ttl, "ttl"))
    if expiration:
        left = expiration - exchange.face.broker.now()
        draft = replace(draft, ttl=Millis(max(0, left)))
    return draft


def _span(number: int, name: str) -> Millis:
    if number < 0:
        raise bad_request(f"{name} is not negative")
    return Millis(number)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise bad_request("durable, ttl, expiration and priority are numbers, or true and false")
    return int(text)


queue, topic, node = (partial(create, is_queue=kind) for kind in (True, False, None))
queue_with_id, topic_with_id = (partial(create_with_id, is_queue=kind) for kind in (True, False))
