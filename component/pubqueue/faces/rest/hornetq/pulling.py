"""Pull consumers of queues and pull subscriptions of topics."""

from __future__ import annotations

import re
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from pubqueue.faces.http.host import connection
from pubqueue.faces.http.problems import ProblemError, bad_request, not_found
from pubqueue.faces.rest.exchange import answer, share, wait_of
from pubqueue.faces.rest.face import address_of
from pubqueue.faces.rest.hornetq.destinations import PULL, fields_of, linked
from pubqueue.faces.rest.items import body_of, headers_of
from pubqueue.faces.rest.links import Link, path
from pubqueue.faces.rest.star.consuming import FORM, form, nothing, prefer, token_of, verdict_of
from pubqueue.model.entities import NUMBER, ItemId, Jid, seconds
from pubqueue.rules.settle import Settle, Verb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.face import PullConsumer
    from pubqueue.model.entities import Item, Principal


# Pull consumers of queues: created, asked for messages, and given acknowledgements.

GONE: Final = frozenset({403, 404, 409, 412})
"""Statuses of a message that is not the consumer's any more: HornetQ has one answer for them."""


async def create(exchange: Exchange) -> web.Response:
    """Create a consumer."""
    kind, _ = await wishes_of(exchange)
    described = await exchange.destined(is_queue=True)
    if not described.may_subscribe:
        raise ProblemError(403, "forbidden", "the account may not consume messages of this queue")
    name = secrets.token_hex(8)
    by = principal_of(exchange, name)
    made = exchange.face.pulling.make(by, exchange.node, 1, is_auto=kind == AUTO)
    where = url_of(exchange, kind, name)
    return linked(201, [due(made, where)], [("Location", where)])


async def consume(exchange: Exchange) -> web.Response | web.StreamResponse:
    """Return the next message, and retract it when it was sent."""
    number = number_of(exchange)
    by, where = consumer_of(exchange, AUTO)
    consumers = exchange.face.pulling
    consumer = consumers.find(by, exchange.node)
    if consumer is None:
        await exchange.destined(is_queue=True)
        consumer = consumers.make(by, exchange.node, number + 1, is_auto=True)
        raise stale(consumer, where)
    async with in_turn(exchange, consumer):
        if number == consumer.due - 1 and consumer.open is not None:
            return message_with(exchange, *consumer.open, [due(consumer, where), itself(where)])
        if number != consumer.due:
            raise stale(consumer, where)
        wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
        found = await _take(exchange, consumer, wait.seconds)
        if found is None:
            return nothing_yet(exchange, consumer, where)
        consumer.due += 1
        response = message_with(exchange, *found, [due(consumer, where), itself(where)])
        prefer(response, wait)
        await _send(exchange, consumer, response, found[0])
        consumers.sent(consumer, found)
        return response


async def _send(
    exchange: Exchange, consumer: PullConsumer, response: web.Response, item: Item
) -> None:
    """Send a message, and retract it once it was written; if that fails, it is released."""
    try:
        await send(exchange, response)
    except BaseException:
        consumer.due -= 1
        exchange.face.pulling.release(consumer, item)
        raise
    settle = Settle(
        consumer.by, consumer.node, (item.id,), Verb.RETRACT, token=item.token, late=True
    )
    exchange.face.broker.submit(settle, lambda _reply: None)


async def acknowledge_next(exchange: Exchange) -> web.Response:
    """Return the next message, or the one that is not acknowledged yet."""
    number = number_of(exchange)
    by, where = consumer_of(exchange, MANUAL)
    consumers = exchange.face.pulling
    consumer = consumers.find(by, exchange.node)
    is_new = consumer is None
    if consumer is None:
        await exchange.destined(is_queue=True)
        consumer = consumers.make(by, exchange.node, number, is_auto=False)
    async with in_turn(exchange, consumer):
        if is_new or consumer.open is not None:
            held = await consumers.held(by, exchange.node)
            consumer.open = next(iter(held), None)
        wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
        if consumer.open is None:
            consumer.open = await _take(exchange, consumer, wait.seconds)
            if consumer.open is None:
                return nothing_yet(exchange, consumer, where)
            consumer.due = max(consumer.due, number) + 1
        response = message_with(
            exchange, *consumer.open, [_open(consumer.open[0], where), itself(where)]
        )
        prefer(response, wait)
        return response


async def acknowledge(exchange: Exchange) -> web.Response:
    """Settle a message of the consumer, and return the link to the next one."""
    token = token_of(exchange)
    by, where = consumer_of(exchange, MANUAL)
    verdict = verdict_of(await form(exchange))
    consumer = exchange.face.pulling.find(by, exchange.node)
    following = Link(
        "acknowledge-next", f"{where}/acknowledge-next-{consumer.due if consumer else 1}"
    )
    if consumer is not None and consumer.open is not None and consumer.open[0].token != token:
        raise lost(following)
    item = ItemId(exchange.names["id"])
    request = verdict.request(
        by, exchange.node, item, token, seconds(exchange.settings.settled_for)
    )
    try:
        exchange.granted(await exchange.face.submit(exchange.by, request))
    except ProblemError as problem:
        if problem.status in GONE:
            raise lost(following) from None
        raise
    if consumer is not None:
        consumer.open = None
        exchange.face.pulling.note_use(consumer)
    return linked(204, [following])


async def look(exchange: Exchange) -> web.Response:
    """Return the link that is due."""
    kind = exchange.names["kind"]
    by, where = consumer_of(exchange, kind)
    consumer = exchange.face.pulling.find(by, exchange.node)
    if consumer is not None and (consumer.is_auto or consumer.open is None):
        return linked(204, [due(consumer, where)])
    held = await exchange.face.pulling.held(by, exchange.node)
    if held and kind == MANUAL:
        return linked(204, [_open(held[0][0], where)])
    if consumer is None:
        raise not_found("there is no such consumer")
    return linked(204, [due(consumer, where)])


async def delete(exchange: Exchange) -> web.Response:
    """Close a consumer; its message is released."""
    by, _ = consumer_of(exchange, exchange.names["kind"])
    consumers = exchange.face.pulling
    consumer = consumers.find(by, exchange.node)
    if consumer is not None:
        consumers.close(consumer)
        return answer(204)
    held = await consumers.held(by, exchange.node)
    if not held:
        raise not_found("there is no such consumer")
    for item, _ in held:
        settle = Settle(by, exchange.node, (item.id,), Verb.UNLOCK, token=item.token)
        await exchange.face.submit(exchange.by, settle)
    return answer(204)


async def _take(
    exchange: Exchange, consumer: PullConsumer, seconds: float
) -> tuple[Item, bytes] | None:
    """Take the next message for the consumer, None if none arrived in time."""
    taken = await exchange.take(exchange.node, seconds, consumer.by)
    if not taken.items:
        return None
    if not connection().is_open:
        exchange.face.waiting.give_back(consumer.by, taken)
        raise ConnectionResetError
    found: tuple[Item, bytes] = taken.items[0]
    return found


def _open(item: Item, where: str) -> Link:
    return acknowledgement_of(item, item.token, where)


# The common parts of pull consumers of queues and pull subscriptions of topics: their paths, links and answers.

AUTO, MANUAL = "1", "2"
"""The segment in the path of a consumer: whether it acknowledges messages as they are sent."""

_NUMBER: Final = re.compile(NUMBER)
_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


def number_of(exchange: Exchange) -> int:
    """Return the number of a request for a message, which is in the path.

    Raises:
        ProblemError: it is invalid.

    """
    text = exchange.names["number"]
    if not _NUMBER.fullmatch(text):
        raise not_found("there is no such link")
    return int(text)


def consumer_of(exchange: Exchange, kind: str, *, is_queue: bool = True) -> tuple[Principal, str]:
    """Return the address in the path, for the account of the request, and the URL of the consumer.

    Raises:
        ProblemError: the path names none.

    """
    name, wanted = exchange.names["name"], exchange.names["kind"]
    if wanted != kind or wanted not in {AUTO, MANUAL} or not _NAME.fullmatch(name):
        raise not_found("there is no such consumer")
    return principal_of(exchange, name), url_of(exchange, kind, name, is_queue=is_queue)


def principal_of(exchange: Exchange, name: str) -> Principal:
    """Return the principal of a consumer of the account of the request."""
    return exchange.face.accounts.principals.of(Jid(address_of(exchange.by.account, name)))


def url_of(exchange: Exchange, kind: str, name: str, *, is_queue: bool = True) -> str:
    """Return the URL of a consumer."""
    place = exchange.destination(is_queue=is_queue)
    return exchange.url(*place, PULL[is_queue], f"attributes-{kind}", name)


def due(consumer: PullConsumer, where: str) -> Link:
    """Return the link to the next message."""
    rel = "consume-next" if consumer.is_auto else "acknowledge-next"
    return Link(rel, f"{where}/{rel}-{consumer.due}")


def itself(where: str) -> Link:
    """Return the link to the consumer."""
    return Link("consumer", where)


def acknowledgement_of(item: Item, number: int, where: str) -> Link:
    """Return the link that acknowledges a message, by the token of its lock or by its number in a topic."""
    return Link("acknowledgement", where + path("acknowledgement", item.id, f"{number}"))


def stale(consumer: PullConsumer, where: str) -> ProblemError:
    """Return the problem of a link that is not due, with the one that is."""
    detail = "this link was used, or is of an earlier process"
    headers = fields_of([due(consumer, where)])
    return ProblemError(412, "precondition-failed", detail, headers=headers)


@asynccontextmanager
async def in_turn(exchange: Exchange, consumer: PullConsumer) -> AsyncIterator[None]:
    """Answer one request of the consumer at a time; meanwhile it is not idle."""
    exchange.face.pulling.begin(consumer)
    try:
        async with consumer.turn:
            yield
    finally:
        exchange.face.pulling.end(consumer)


def nothing_yet(exchange: Exchange, consumer: PullConsumer, where: str) -> web.Response:
    """Return the answer when there was no message in time, with the link, which stays valid."""
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    response = nothing(exchange, wait)
    for name, value in fields_of([due(consumer, where)]):
        response.headers.add(name, value)
    return response


def message_with(exchange: Exchange, item: Item, payload: bytes, links: list[Link]) -> web.Response:
    """Return a message with these links."""
    kind, body = body_of(item, payload)
    headers = [*headers_of(item, exchange.reply_url), ("Cache-Control", "no-store")]
    return linked(200, links, headers, body=body, kind=kind)


async def wishes_of(exchange: Exchange) -> tuple[str, dict[str, str]]:
    """Return the kind of a new consumer, and its form, which may be missing.

    Raises:
        ProblemError: it cannot be read, or has a selector.

    """
    wishes: dict[str, str] = {}
    if exchange.request.content_type == FORM and "Content-Type" in exchange.request.headers:
        wishes = dict(await form(exchange))
    else:
        await exchange.no_body()
    if wishes.get("selector"):
        raise ProblemError(501, "selector-unsupported", "a consumer gets each message in turn")
    auto = wishes.get("autoAck", "true")
    if auto not in {"true", "false"}:
        raise bad_request("autoAck is true or false")
    return AUTO if auto == "true" else MANUAL, wishes


def lost(following: Link) -> ProblemError:
    """Return the problem of an acknowledgement that no longer counts, with the link to the next message."""
    return ProblemError(
        412,
        "lock-lost",
        "the message is not, or no longer, locked to this consumer",
        headers=fields_of([following]),
    )


async def send(exchange: Exchange, response: web.Response) -> None:
    """Send an answer; return once it was written.

    Raises:
        ConnectionError: the client has gone.

    """
    share(response, exchange.request.headers, exchange.settings.cors_origins)
    await response.prepare(exchange.request)
    await response.write_eof()
