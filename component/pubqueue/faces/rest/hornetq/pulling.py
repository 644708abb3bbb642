"""Pull consumers of queues: created, asked for messages, and given acknowledgements."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from pubqueue.faces.http.host import connection
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.hornetq.links import linked
from pubqueue.faces.rest.hornetq.pull_parts import (
    AUTO,
    MANUAL,
    acknowledgement_of,
    consumer_of,
    due,
    in_turn,
    itself,
    lost,
    message_with,
    nothing_yet,
    number_of,
    principal_of,
    send,
    stale,
    url_of,
    wishes_of,
)
from pubqueue.faces.rest.http.links import Link
from pubqueue.faces.rest.http.problems import ProblemError, not_found
from pubqueue.faces.rest.http.waits import wait_of
from pubqueue.faces.rest.star.acknowledging import form, token_of, verdict_of
from pubqueue.faces.rest.star.consuming import prefer
from pubqueue.model.entities import ItemId
from pubqueue.rules.settle import Settle, Verb

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.hornetq.consumers import PullConsumer
    from pubqueue.model.entities import Item

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
        wait = wait_of(exchange.request.headers, exchange.terms.longest_wait)
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
        wait = wait_of(exchange.request.headers, exchange.terms.longest_wait)
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
    request = verdict.request(by, exchange.node, item, token, exchange.terms.settled_for)
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
    waiting = exchange.face.waiting
    taken = exchange.granted(await waiting.take(consumer.by, exchange.node, seconds))
    if not taken.items:
        return None
    if not connection().is_open:
        waiting.give_back(consumer.by, taken)
        raise ConnectionResetError
    found: tuple[Item, bytes] = taken.items[0]
    return found


def _open(item: Item, where: str) -> Link:
    return acknowledgement_of(item, item.token, where)
