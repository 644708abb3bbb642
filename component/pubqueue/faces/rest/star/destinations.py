"""Destinations: their links, and how they are created and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http.problems import ProblemError, bad_request, refused
from pubqueue.faces.rest.openapi import served
from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import agrees
from pubqueue.rules.nodes import Create, Delete
from pubqueue.rules.read import ReadNodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.http.links import Link
    from pubqueue.model.replies import Described, NodePage
    from pubqueue.rules.nodeconfig import Settings

JSON = "application/json"
ATOM = "application/atom+xml"

EVENTS = "text/event-stream"

POSTING = (
    ("post-message", "messages", ""),
    ("message-factory", "messages", ""),
    ("post-message-once", "once", ""),
    ("post-batch", "batches", ""),
    ("post-batch-once", "batches-once", ""),
)
CONSUMING = (("poller", "consumer", ""), ("consumer", "consumer", ""))
READING = (("first", "first", ""), ("last", "last", ""), ("next", "next", ""))
SUBSCRIBERS = (("subscribers", "subscribers", ATOM),)
EVENT_STREAM = (("events", "events", EVENTS),)
"""Relation, path below the destination, and type of each link."""


def links_of(exchange: Exchange, described: Described | None, *, is_queue: bool) -> list[Link]:
    """Return the links of a destination: those that the account may follow; all for an account that has just created it."""
    posts = described is None or described.may_publish
    consumes = described is None or described.may_subscribe
    observes = described is None or described.depth is not None
    rows: tuple[tuple[str, str, str], ...] = POSTING if posts else ()
    if consumes:
        rows += (CONSUMING if is_queue else READING) + SUBSCRIBERS
    if observes if is_queue else consumes:
        rows += EVENT_STREAM
    place = exchange.destination(is_queue=is_queue)
    found = [exchange.link(rel, *place, below, kind=kind) for rel, below, kind in rows]
    return [*found, exchange.link("service-desc", served.PATH, kind=served.MEDIA_TYPE)]


async def get_queue(exchange: Exchange) -> web.Response:
    """Return the links of a queue."""
    return await _get(exchange, is_queue=True)


async def get_topic(exchange: Exchange) -> web.Response:
    """Return the links of a topic."""
    return await _get(exchange, is_queue=False)


async def _get(exchange: Exchange, *, is_queue: bool) -> web.Response:
    described = await exchange.destined(is_queue=is_queue)
    links = links_of(exchange, described, is_queue=is_queue)
    document: dict[str, Any] = {
        "name": exchange.node,
        "kind": "queue" if is_queue else "topic",
        "links": {link.rel: link.url for link in links},
    }
    if described.depth is not None and exchange.request.method == "GET":
        document["counts"] = await counts_of(exchange, described.depth)
    return answer(200, links=links, body=msgspec.json.encode(document), kind=JSON)


async def counts_of(exchange: Exchange, depth: int) -> dict[str, int]:
    """Return the number of messages, and in a queue the number in each state.

    Raises:
        ProblemError: the account may no longer know.

    """
    found: NodePage = await exchange.ask(ReadNodes(exchange.by, only=(exchange.node,)))
    entry = next(iter(found.entries), None)
    if entry is None or not entry.node.config.queueing:
        return {"messages": depth}
    return {
        "messages": entry.queued + entry.locked + entry.delayed + entry.dead,
        "queued": entry.queued,
        "locked": entry.locked,
        "delayed": entry.delayed,
        "dead": entry.dead,
    }


async def put_queue(exchange: Exchange) -> web.Response:
    """Create a queue."""
    return await _put(exchange, is_queue=True)


async def put_topic(exchange: Exchange) -> web.Response:
    """Create a topic."""
    return await _put(exchange, is_queue=False)


async def _put(exchange: Exchange, *, is_queue: bool) -> web.Response:
    mode = exchange.request.headers.get("Message-Ack-Mode", "single")
    if mode != "single":
        detail = "a message is acknowledged by its consumer: Message-Ack-Mode is single"
        raise ProblemError(501, "unsupported", detail)
    form = form_of(await exchange.body())
    settings = exchange.terms.settings({**form, "x-queueing#enabled": ["1" if is_queue else "0"]})
    create = Create(exchange.by, exchange.node, settings)
    reply = await exchange.face.submit(exchange.by, create)
    place = [("Location", exchange.url(*exchange.destination(is_queue=is_queue)))]
    links = links_of(exchange, None, is_queue=is_queue)
    if isinstance(reply, Refused) and reply.refusal is Refusal.NODE_EXISTS:
        await _check_same(exchange, settings, manage=bool(form))
        return answer(200, place, links)
    exchange.granted(reply)
    return answer(201, place, links)


async def _check_same(exchange: Exchange, settings: Settings, *, manage: bool) -> None:
    """Refuse if the existing node has other settings than the named ones, which owners may see.

    Raises:
        ProblemError: it has, or the account may not see it.

    """
    if settings.objection is not None:
        raise refused(settings.objection)
    described: Described = await exchange.ask(Describe(exchange.by, exchange.node, manage))
    no = agrees(described.node.config, settings)
    if no is not None:
        raise refused(no)


def form_of(body: bytes) -> dict[str, Sequence[str]]:
    """Return the fields of a form that is sent as a JSON object.

    Raises:
        ProblemError: it is something else.

    """
    if not body.strip():
        return {}
    try:
        found = msgspec.json.decode(body, type=dict[str, str | int | float | bool | list[str]])
    except (msgspec.DecodeError, RecursionError):
        raise bad_request(
            "the body is a JSON object of fields of the node's form, with their values"
        ) from None
    return {name: _values(value) for name, value in found.items()}


def _values(value: str | float | bool | list[str]) -> Sequence[str]:  # noqa: FBT001  # a value of JSON
    if isinstance(value, list):
        return value
    if isinstance(value, bool):
        return ["1" if value else "0"]
    return [f"{value}"]


async def delete_queue(exchange: Exchange) -> web.Response:
    """Delete a queue with its messages."""
    return await _delete(exchange, is_queue=True)


async def delete_topic(exchange: Exchange) -> web.Response:
    """Delete a topic with its messages."""
    return await _delete(exchange, is_queue=False)


async def _delete(exchange: Exchange, *, is_queue: bool) -> web.Response:
    await exchange.destined(is_queue=is_queue)
    await exchange.ask(Delete(exchange.by, exchange.node))
    return answer(204)
