"""Pull subscriptions of topics: a position in the topic for each, which is in the store, for good if the subscription is durable."""

from __future__ import annotations

import secrets
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.faces.http.problems import bad_request, not_found
from pubqueue.faces.rest.exchange import answer, wait_of
from pubqueue.faces.rest.hornetq.destinations import linked
from pubqueue.faces.rest.hornetq.pulling import (
    AUTO,
    MANUAL,
    OF_TOPIC,
    acknowledgement_of,
    consumer_of,
    due,
    itself,
    kept,
    lost,
    made,
    message_with,
    note_of,
    noted,
    nothing_yet,
    row_of,
    send,
    stale,
    url_of,
    wishes_of,
)
from pubqueue.faces.rest.star.consuming import form, number_of, prefer, token_of, verdict_of
from pubqueue.faces.rest.star.destinations import GAP, message_behind
from pubqueue.rules.retrieve import ReadNewer

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.entities import Item
    from pubqueue.model.records import Registration
    from pubqueue.model.replies import NewerItems

# The position of a subscription is the number of the last message that is done, and the number in its links. The message behind it is the
# next one, on whichever instance it is asked for. Without `autoAck` the message that was given and not acknowledged is stored too.


async def create(exchange: Exchange) -> web.Response:
    """Create a subscription; a durable one continues from its position, if one of its name exists."""
    kind, wishes = await wishes_of(exchange, OF_TOPIC)
    durable = wishes.get("durable", "false")
    if durable not in {"true", "false"}:
        raise bad_request("durable is true or false")
    await exchange.destined(is_queue=False)
    row, name, is_durable = None, secrets.token_hex(8), durable == "true"
    if is_durable:
        name = _name(exchange, wishes.get("name", ""))
        row = await row_of(exchange, name)
    elif wishes.get("name"):
        raise bad_request("only a durable subscription has a name")
    if row is None:
        row = await _begun(exchange, name, is_durable=is_durable)
    where = url_of(exchange, kind, name, is_queue=False)
    return linked(201, [due(row, kind, where)], [("Location", where)])


def _name(exchange: Exchange, given: str) -> str:
    """Return the stored form of a durable subscription of the account."""
    if not given:
        raise bad_request("a durable subscription has a name")
    text = f"{exchange.by.account}\0{exchange.node}\0{given}"
    return blake2b(text.encode(), digest_size=8).hexdigest()


async def _begun(exchange: Exchange, name: str, *, is_durable: bool = False) -> Registration:
    """Create a subscription that begins with the next message of the topic."""
    newest: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
    return await made(
        exchange, name, is_queue=False, position=newest.through, is_durable=is_durable
    )


async def consume(exchange: Exchange) -> web.Response:
    """Return the next message, and move the position of the subscription past it."""
    number = number_of(exchange)
    by, where = consumer_of(exchange, AUTO, is_queue=False)
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    async with exchange.face.pulling.turn(by, exchange.node):
        row = await kept(exchange, wait)
        if row is None:
            raise stale(await _begun(exchange, exchange.names["name"]), where)
        if number > row.position:
            row = await _received(exchange, row, number, where)
        is_again = number < row.position
        found = await message_behind(exchange, number, 0.0 if is_again else wait.seconds)
        if is_again and (found is None or found[0][0].seq != row.position):
            raise stale(row, where)
        if found is None:
            return nothing_yet(exchange, row, AUTO, where)
        (item, payload), has_gap = found
        links = [due(replace(row, position=item.seq), AUTO, where), itself(where)]
        content = await exchange.rendered(item, payload)
        response = message_with(exchange, item, content, links)
        _add_gap(exchange, response, has_gap=has_gap and number > 0)
        await send(exchange, response)
        if not is_again:  # it does not wait for the account's turn, nor end with the client; if it fails, the next link moves it
            await exchange.face.broker.handle(note_of(exchange, row, position=item.seq))
        return response


async def _received(exchange: Exchange, row: Registration, number: int, where: str) -> Registration:
    """Move the position to that of a link that another instance has just given: with a link goes the message before it.

    Raises:
        ProblemError: no message can have had this number.

    """
    newest: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
    if number > newest.through:
        raise stale(row, where)
    return await noted(exchange, note_of(exchange, row, position=number))


async def acknowledge_next(exchange: Exchange) -> web.Response:
    """Return the next message, or the one that is not acknowledged yet."""
    number_of(exchange)
    by, where = consumer_of(exchange, MANUAL, is_queue=False)
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    async with exchange.face.pulling.turn(by, exchange.node):
        row = await kept(exchange, wait)
        if row is None:
            row = await _begun(exchange, exchange.names["name"])
        found = await message_behind(exchange, row.position, wait.seconds)
        if found is None:
            return nothing_yet(exchange, row, MANUAL, where)
        (item, payload), has_gap = found
        if row.following != f"{item.seq}":
            await noted(exchange, note_of(exchange, row, following=f"{item.seq}"))
        links = [acknowledgement_of(item, item.seq, where), itself(where)]
        content = await exchange.rendered(item, payload)
        response = message_with(exchange, item, content, links)
        _add_gap(exchange, response, has_gap=has_gap and row.position > 0)
        return response


def _add_gap(exchange: Exchange, response: web.Response, *, has_gap: bool) -> None:
    """Add whether messages may have been skipped, and which preference was applied."""
    if has_gap:
        response.headers.add(*GAP)
    prefer(response, wait_of(exchange.request.headers, exchange.settings.longest_wait))


async def acknowledge(exchange: Exchange) -> web.Response:
    """Continue after a message, or deliver it again."""
    number = token_of(exchange)
    _, where = consumer_of(exchange, MANUAL, is_queue=False)
    verdict = verdict_of(await form(exchange))
    if (row := await kept(exchange)) is None:
        raise not_found("there is no such subscription")
    is_open = row.following == f"{number}"
    is_repeated = not row.following and verdict.is_done == (row.position == number)
    if not is_open and not is_repeated:
        raise lost(due(row, MANUAL, where))
    if is_open:
        row = await noted(
            exchange, note_of(exchange, row, position=number if verdict.is_done else 0)
        )
    return linked(204, [due(row, MANUAL, where)])


async def look(exchange: Exchange) -> web.Response:
    """Return the link that is due."""
    kind = exchange.names["kind"]
    _, where = consumer_of(exchange, kind, is_queue=False)
    if (row := await row_of(exchange)) is None:
        raise not_found("there is no such subscription")
    if kind == MANUAL and row.following:
        found = await message_behind(exchange, row.position, 0.0)
        if found is not None:
            item: Item = found[0][0]
            return linked(204, [acknowledgement_of(item, item.seq, where)])
    return linked(204, [due(row, kind, where)])


async def delete(exchange: Exchange) -> web.Response:
    """End a subscription, including a durable one."""
    consumer_of(exchange, exchange.names["kind"], is_queue=False)
    if (row := await row_of(exchange)) is None:
        raise not_found("there is no such subscription")
    submit = partial(exchange.face.submit, exchange.by)
    exchange.granted(await exchange.face.pulling.close(row, submit))
    return answer(204)
