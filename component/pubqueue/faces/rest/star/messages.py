"""A message by its URL: to read it, which consumes nothing, and to retract it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http.problems import ProblemError, not_found
from pubqueue.faces.rest.star.acknowledging import Verdict, settle
from pubqueue.faces.rest.star.consuming import message
from pubqueue.model.entities import ItemId
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.settle import Settle, Verb

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.decision import Retrieved
    from pubqueue.model.entities import Item

_TAG: Final = re.compile(r'"(\d{1,18})"', re.ASCII)


async def item_of(exchange: Exchange, *, is_queue: bool | None) -> tuple[Item, bytes]:
    """Return the item of the path with its payload, if the account may see it.

    Raises:
        ProblemError: it does not exist for the account.

    """
    request = Retrieve(exchange.by, exchange.node, (ItemId(exchange.names["id"]),))
    found: Retrieved = await exchange.ask(request)
    if is_queue is not None and found.node.config.queueing is not is_queue:
        raise not_found("there is no such destination")
    if not found.items:
        raise not_found("there is no such message, or it is done")
    return found.items[0]


async def get_of_queue(exchange: Exchange) -> web.Response:
    """Return a message of a queue to owners, publishers, and its holder."""
    item, payload = await item_of(exchange, is_queue=True)
    return message(exchange, item, payload, is_queue=True)


async def get_of_topic(exchange: Exchange) -> web.Response:
    """Return a message of a topic."""
    item, payload = await item_of(exchange, is_queue=False)
    return message(exchange, item, payload, is_queue=False)


async def get_of_node(exchange: Exchange) -> web.Response:
    """Return a message of a node of either kind."""
    described = await exchange.described()
    is_queue = described.node.config.queueing
    item, payload = await item_of(exchange, is_queue=is_queue)
    return message(exchange, item, payload, is_queue=is_queue)


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
    if (header := exchange.request.headers.get("If-Match")) is not None:
        item, _ = await item_of(exchange, is_queue=False)
        if header.strip() not in {"*", f'"{item.seq}"'}:
            raise ProblemError(412, "precondition-failed", "the message is another one")
    await _retract(exchange)
    return answer(204)


async def _retract(exchange: Exchange) -> None:
    ids = (ItemId(exchange.names["id"]),)
    await exchange.ask(Settle(exchange.by, exchange.node, ids, Verb.RETRACT, notify=True))
