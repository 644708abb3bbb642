"""Pull subscriptions of topics: a position in the topic for each, in memory or, if it is durable, in the store under its name."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from pubqueue.faces.http.problems import bad_request, not_found, refused
from pubqueue.faces.rest import push
from pubqueue.faces.rest.exchange import answer, wait_of
from pubqueue.faces.rest.hornetq import pulling
from pubqueue.faces.rest.hornetq.destinations import linked
from pubqueue.faces.rest.star.consuming import form, prefer, token_of, verdict_of
from pubqueue.faces.rest.star.destinations import GAP, message_behind
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import ListRegistrations, NotePush, Register, Unregister
from pubqueue.rules.retrieve import ReadNewer

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.face import PullConsumer
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import NewerItems

RUNNER: Final = ""
"""No process works on a registration that is pulled: any process records its position."""


async def create(exchange: Exchange) -> web.Response:
    """Create a subscription; a durable one continues from its position, if one of its name exists."""
    kind, wishes = await pulling.wishes_of(exchange)
    durable = wishes.get("durable", "false")
    if durable not in {"true", "false"}:
        raise bad_request("durable is true or false")
    await exchange.destined(is_queue=False)
    newest: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
    position, name = newest.through, secrets.token_hex(8)
    if durable == "true":
        name = _name(exchange, wishes.get("name", ""))
        position = await _kept(exchange, name, position)
    by = pulling.principal_of(exchange, name)
    known = exchange.face.pulling.find(by, exchange.node)
    made = known or exchange.face.pulling.make(by, exchange.node, 1, is_auto=kind == pulling.AUTO)
    if known is None:
        made.position = position
    where = pulling.url_of(
        exchange, pulling.AUTO if made.is_auto else pulling.MANUAL, name, is_queue=False
    )
    return linked(201, [pulling.due(made, where)], [("Location", where)])


def _name(exchange: Exchange, given: str) -> str:
    """Return the stored form of a durable subscription of the account."""
    if not given:
        raise bad_request("a durable subscription has a name")
    text = f"{exchange.by.account}\0{exchange.node}\0{given}"
    return blake2b(text.encode(), digest_size=8).hexdigest()


async def _kept(exchange: Exchange, name: str, position: int) -> int:
    """Store a durable subscription, and return its position."""
    if (row := await _row(exchange, name)) is not None:
        return row.position
    written = push.written(push.PullWords())
    row = Registration(name, exchange.by.account, exchange.node, False, written, position=position)  # noqa: FBT003  # a topic
    kept: Registrations = await exchange.ask(Register(exchange.by, row))
    return kept.entries[0].position


async def _row(exchange: Exchange, name: str) -> Registration | None:
    """Return the durable subscription of this name, None if there is none.

    Raises:
        ProblemError: the store did not answer.

    """
    request = ListRegistrations(exchange.by, exchange.node, name=name)
    reply = await exchange.face.submit(exchange.by, request)
    if isinstance(reply, Registrations):
        row = reply.entries[0]
        return row if isinstance(push.read(row.words), push.PullWords) else None
    if isinstance(reply, Refused) and reply.refusal is not Refusal.ITEM_NOT_FOUND:
        raise refused(reply)
    return None


async def _found(exchange: Exchange, by: Principal, number: int, *, is_auto: bool) -> PullConsumer:
    """Return the subscription of the path; an unknown one is created again, from its stored position or from now on."""
    consumers = exchange.face.pulling
    if (known := consumers.find(by, exchange.node)) is not None:
        return known
    row = await _row(exchange, exchange.names["name"])
    newest: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
    made = consumers.make(by, exchange.node, number, is_auto=is_auto)
    made.position = newest.through if row is None else row.position
    return made


async def consume(exchange: Exchange) -> web.Response:
    """Return the next message, and move the position of the subscription past it."""
    number = pulling.number_of(exchange)
    by, where = pulling.consumer_of(exchange, pulling.AUTO, is_queue=False)
    is_known = exchange.face.pulling.find(by, exchange.node) is not None
    following = number if is_known else number + 1
    consumer = await _found(exchange, by, following, is_auto=True)
    if not is_known:
        raise pulling.stale(consumer, where)
    async with pulling.in_turn(exchange, consumer):
        if number == consumer.due - 1 and consumer.open is not None:
            return pulling.message_with(
                exchange, *consumer.open, [pulling.due(consumer, where), pulling.itself(where)]
            )
        if number != consumer.due:
            raise pulling.stale(consumer, where)
        has_gap = await _next(exchange, consumer)
        if has_gap is None or consumer.open is None:
            return pulling.nothing_yet(exchange, consumer, where)
        consumer.due += 1
        response = _with_links(exchange, consumer, has_gap, where)
        try:
            await pulling.send(exchange, response)
        except BaseException:  # it is delivered again
            consumer.due, consumer.open = consumer.due - 1, None
            raise
        exchange.face.pulling.sent(consumer, consumer.open)
        await _move(exchange, consumer, consumer.open[0].seq)
        return response


async def acknowledge_next(exchange: Exchange) -> web.Response:
    """Return the next message, or the one that is not acknowledged yet."""
    number = pulling.number_of(exchange)
    by, where = pulling.consumer_of(exchange, pulling.MANUAL, is_queue=False)
    consumer = await _found(exchange, by, number, is_auto=False)
    async with pulling.in_turn(exchange, consumer):
        has_gap: bool | None = False
        if consumer.open is None:
            has_gap = await _next(exchange, consumer)
            if has_gap is None:
                return pulling.nothing_yet(exchange, consumer, where)
            consumer.due = max(consumer.due, number) + 1
        return _with_links(exchange, consumer, has_gap, where)


async def _next(exchange: Exchange, consumer: PullConsumer) -> bool | None:
    """Open the next message, and return whether others may have been skipped; None if none arrived in time."""
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    row = await _row(exchange, exchange.names["name"])
    behind = max(
        consumer.position or 0, 0 if row is None else row.position
    )  # another instance may have continued
    found = await message_behind(exchange, behind, wait.seconds)
    if found is None:
        return None
    consumer.open, has_gap = found
    return has_gap and behind > 0


def _with_links(
    exchange: Exchange,
    consumer: PullConsumer,
    has_gap: bool | None,  # noqa: FBT001  # of the message
    where: str,
) -> web.Response:
    """Return the open message."""
    assert consumer.open is not None
    item, payload = consumer.open
    first = (
        pulling.due(consumer, where)
        if consumer.is_auto
        else pulling.acknowledgement_of(item, item.seq, where)
    )
    response = pulling.message_with(exchange, item, payload, [first, pulling.itself(where)])
    if has_gap:
        response.headers.add(*GAP)
    prefer(response, wait_of(exchange.request.headers, exchange.settings.longest_wait))
    return response


async def _move(exchange: Exchange, consumer: PullConsumer, position: int) -> None:
    """Move the position of a subscription past a message, in the store too if it is durable."""
    consumer.position = max(consumer.position or 0, position)
    name = exchange.names["name"]
    if await _row(exchange, name) is not None:
        service = exchange.face.accounts.principals.service(exchange.face.broker.service)
        note = NotePush(service, name, RUNNER, position=position)
        await exchange.face.submit(exchange.by, note)  # if it fails, the message is delivered again


async def acknowledge(exchange: Exchange) -> web.Response:
    """Continue after a message, or deliver it again."""
    number = token_of(exchange)
    by, where = pulling.consumer_of(exchange, pulling.MANUAL, is_queue=False)
    verdict = verdict_of(await form(exchange))
    consumer = exchange.face.pulling.find(by, exchange.node)
    if consumer is None:
        if await _row(exchange, exchange.names["name"]) is None:
            raise not_found("there is no such subscription")
        consumer = await _found(exchange, by, 1, is_auto=False)
    following = pulling.due(consumer, where)
    is_open = consumer.open is not None and consumer.open[0].seq == number
    is_repeated = consumer.open is None and verdict.is_done == (consumer.position == number)
    if not (
        is_open or is_repeated or (consumer.open is None and number > (consumer.position or 0))
    ):
        raise pulling.lost(following)
    if verdict.is_done and number > (consumer.position or 0):
        await _move(exchange, consumer, number)
    consumer.open = None
    exchange.face.pulling.note_use(consumer)
    return linked(204, [following])


async def look(exchange: Exchange) -> web.Response:
    """Return the link that is due."""
    by, where = pulling.consumer_of(exchange, exchange.names["kind"], is_queue=False)
    consumer = exchange.face.pulling.find(by, exchange.node)
    if consumer is None:
        raise not_found("there is no such subscription")
    if consumer.is_auto or consumer.open is None:
        return linked(204, [pulling.due(consumer, where)])
    item = consumer.open[0]
    return linked(204, [pulling.acknowledgement_of(item, item.seq, where)])


async def delete(exchange: Exchange) -> web.Response:
    """End a subscription, including a durable one."""
    by, _ = pulling.consumer_of(exchange, exchange.names["kind"], is_queue=False)
    consumer = exchange.face.pulling.find(by, exchange.node)
    row = await _row(exchange, exchange.names["name"])
    if consumer is None and row is None:
        raise not_found("there is no such subscription")
    if consumer is not None:
        exchange.face.pulling.close(consumer)
    if row is not None:
        await exchange.ask(Unregister(exchange.by, exchange.node, row.name))
    return answer(204)
