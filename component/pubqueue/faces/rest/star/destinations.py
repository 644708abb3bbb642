"""Destinations of `rest-star`, the messages at their URLs, and reading a topic."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pubqueue.faces.http.problems import ProblemError, bad_request, not_found, refused
from pubqueue.faces.rest import openapi
from pubqueue.faces.rest.exchange import answer, of_either, only_if_new, wait_of
from pubqueue.faces.rest.star.consuming import Verdict, message, nothing, prefer, settle
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NUMBER, ItemId
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import agrees
from pubqueue.rules.nodes import Create, Delete
from pubqueue.rules.read import ReadNodes
from pubqueue.rules.retrieve import ReadNewer, Retrieve
from pubqueue.rules.settle import Settle, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.links import Link
    from pubqueue.model.decision import Retrieved
    from pubqueue.model.entities import Item, Principal
    from pubqueue.model.replies import Described, NewerItems, NodePage
    from pubqueue.rules.nodeconfig import Settings


# Destinations: their links, and how they are created and deleted.

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
    return [*found, exchange.link("service-desc", openapi.PATH, kind=openapi.OPENAPI_TYPE)]


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
        "messages": entry.queued + entry.locked + entry.delayed + entry.held + entry.dead,
        "queued": entry.queued,
        "locked": entry.locked,
        "delayed": entry.delayed,
        "held": entry.held,
        "dead": entry.dead,
    }


async def _put(exchange: Exchange, *, is_queue: bool) -> web.Response:
    mode = exchange.request.headers.get("Message-Ack-Mode", "single")
    if mode != "single":
        detail = "a message is acknowledged by its consumer: Message-Ack-Mode is single"
        raise ProblemError(501, "unsupported", detail)
    only_new = only_if_new(exchange.request.headers.get("If-None-Match"))
    form = form_of(await exchange.body())
    settings = exchange.face.read_form({**form, "x-queueing#enabled": ["1" if is_queue else "0"]})
    create = Create(exchange.by, exchange.node, settings)
    reply = await exchange.face.submit(exchange.by, create)
    place = [("Location", exchange.url(*exchange.destination(is_queue=is_queue)))]
    links = links_of(exchange, None, is_queue=is_queue)
    if isinstance(reply, Refused) and reply.refusal is Refusal.NODE_EXISTS:
        if only_new:
            raise ProblemError(412, "precondition-failed", "the destination exists")
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


_FORM: Final = msgspec.json.Decoder(dict[str, str | int | float | bool | list[str]])


def form_of(body: bytes) -> dict[str, Sequence[str]]:
    """Return the fields of a form that is sent as a JSON object.

    Raises:
        ProblemError: it is something else.

    """
    if not body.strip():
        return {}
    try:
        found = _FORM.decode(body)
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


async def _delete(exchange: Exchange, *, is_queue: bool) -> web.Response:
    await exchange.destined(is_queue=is_queue)
    await exchange.ask(Delete(exchange.by, exchange.node, queueing=is_queue))
    return answer(204)


get_queue, get_topic = of_either(_get)
put_queue, put_topic = of_either(_put)
delete_queue, delete_topic = of_either(_delete)


# A message by its URL: to read it, which consumes nothing, and to retract it.

_TAG: Final = re.compile(f'"{NUMBER}"')


async def item_of(
    exchange: Exchange, *, is_queue: bool | None, by: Principal | None = None
) -> tuple[Item, bytes]:
    """Return the item of the path with its payload, if the account may see it, or another principal of the account.

    Raises:
        ProblemError: it does not exist for the account.

    """
    request = Retrieve(by or exchange.by, exchange.node, (ItemId(exchange.names["id"]),))
    found: Retrieved = await exchange.ask(request)
    if is_queue is not None and found.node.config.queueing is not is_queue:
        raise exchange.no_destination()
    if not found.items:
        raise not_found("there is no such message, or it is done")
    return found.items[0]


async def get_of_queue(exchange: Exchange) -> web.Response:
    """Return a message of a queue to owners, publishers, and its holder."""
    item, payload = await item_of(exchange, is_queue=True)
    return await message(exchange, item, payload, is_queue=True)


async def get_of_topic(exchange: Exchange) -> web.Response:
    """Return a message of a topic."""
    item, payload = await item_of(exchange, is_queue=False)
    return await message(exchange, item, payload, is_queue=False)


async def get_of_node(exchange: Exchange) -> web.Response:
    """Return a message of a node of either kind."""
    described = await exchange.described()
    is_queue = described.node.config.queueing
    item, payload = await item_of(exchange, is_queue=is_queue)
    return await message(exchange, item, payload, is_queue=is_queue)


async def delete_of_queue(exchange: Exchange) -> web.Response:
    """Retract a message of a queue: with `If-Match` as its holder, which acknowledges it, otherwise as an owner or its publisher."""
    header = exchange.request.headers.get("If-Match")
    if header is None:
        await exchange.destined(is_queue=True)
        await _retract(exchange)
        return answer(204)
    tag = _TAG.fullmatch(header.strip())
    if tag is None:
        raise ProblemError(412, "precondition-failed", "If-Match names no lock of the message")
    return await settle(exchange, Verdict(is_done=True), int(tag[1]))


async def delete_of_topic(exchange: Exchange) -> web.Response:
    """Retract a message of a topic, as an owner or its publisher."""
    await exchange.destined(is_queue=False)
    header = exchange.request.headers.get("If-Match", "*").strip()
    tag = _TAG.fullmatch(header)
    number = int(tag[1]) if tag else None if header == "*" else 0  # no message has that one
    await _retract(exchange, number)
    return answer(204)


async def _retract(exchange: Exchange, seq: int | None = None) -> None:
    ids = (ItemId(exchange.names["id"]),)
    wanted = Settle(exchange.by, exchange.node, ids, Verb.RETRACT, notify=True, seq=seq)
    reply = await exchange.face.submit(exchange.by, wanted)
    if isinstance(reply, Refused) and reply.refusal is Refusal.PRECONDITION_NOT_MET:
        raise ProblemError(412, "precondition-failed", "the message is another one")
    exchange.granted(reply)


# Reading a topic: `first`, `last`, and `next`, which waits. Readers have no state here: each continues from a number.

_NUMBER: Final = re.compile(NUMBER)

GAP: Final = ("Message-Gap", "possible")
"""The header of an answer that may have skipped messages: they were no longer stored."""


async def first(exchange: Exchange) -> web.Response:
    """Return the oldest stored message."""
    return await _after(exchange, 0)


async def last(exchange: Exchange) -> web.Response:
    """Return the newest message."""
    await exchange.destined(is_queue=False)
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    found: Retrieved = await exchange.ask(Retrieve(exchange.by, exchange.node, newest=1))
    if not found.items:
        return await _after(exchange, 0)
    response = await message(exchange, *found.items[-1], is_queue=False)
    prefer(response, wait)
    return response


async def upcoming(exchange: Exchange) -> web.Response:
    """Return the first message that is published after the request has arrived."""
    await exchange.destined(is_queue=False)
    found: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
    return await _after(exchange, found.through)


async def after(exchange: Exchange) -> web.Response:
    """Return the message after the number in the path."""
    text = exchange.names["number"]
    if not _NUMBER.fullmatch(text):
        raise not_found()
    return await _after(exchange, int(text))


async def message_behind(
    exchange: Exchange, number: int, seconds: float
) -> tuple[tuple[Item, bytes], bool] | None:
    """Return the first message after a number, waiting up to so many seconds for it, and whether others may have been skipped.

    Raises:
        ProblemError: the account may not read, or too many requests wait.

    """
    found = await _read(exchange, number)
    if found is None and seconds:
        with exchange.face.waiting.counted(exchange.by, seconds):
            found = await _wait(exchange, number, seconds)
    return found


async def _after(exchange: Exchange, number: int) -> web.Response:
    """Return the first message after a number, waiting for it if requested."""
    await exchange.destined(is_queue=False)
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    found = await message_behind(exchange, number, wait.seconds)
    if found is None:
        return nothing(exchange, wait)
    (item, payload), has_gap = found
    response = await message(exchange, item, payload, is_queue=False)
    if has_gap and number:
        response.headers.add(*GAP)
    prefer(response, wait)
    return response


async def _read(exchange: Exchange, number: int) -> tuple[tuple[Item, bytes], bool] | None:
    """Return the first message after a number, and whether others may have been skipped; None if there is none."""
    newer: NewerItems = await exchange.ask(
        ReadNewer(exchange.by, exchange.node, number, most=1, room=1)
    )
    return (newer.items[0], not newer.kept) if newer.items else None


async def _wait(
    exchange: Exchange, number: int, longest: float
) -> tuple[tuple[Item, bytes], bool] | None:
    """Read again whenever the node may have a new message, until there is one or the wait is over."""
    news = asyncio.Event()
    stop = exchange.face.broker.new_items.wait(exchange.node, news.set)
    limit = asyncio.timeout(longest)
    try:
        async with limit:
            while True:
                await exchange.wait(news.wait())
                news.clear()
                if (found := await _read(exchange, number)) is not None:
                    return found
    except TimeoutError:
        if not limit.expired():
            raise
        return None
    finally:
        stop()
