"""Posting a message: 201 after the commit that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http.links import Link
from pubqueue.faces.rest.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.items.published import draft_of, wishes_of
from pubqueue.faces.rest.star.keys import given_key
from pubqueue.model.decision import Published, Refusal, Refused
from pubqueue.rules.publication import Publish

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.entities import Draft, ItemId, NodeName
    from pubqueue.model.records import PublishKey


async def post_to_queue(exchange: Exchange) -> web.Response:
    """Publish a message to a queue."""
    return await _post(exchange, is_queue=True)


async def post_to_topic(exchange: Exchange) -> web.Response:
    """Publish a message to a topic."""
    return await _post(exchange, is_queue=False)


async def post_to_node(exchange: Exchange) -> web.Response:
    """Publish a reply, to a node of either kind."""
    return await _post(exchange, is_queue=None)


async def _post(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    headers = exchange.request.headers
    only_new = _only_new(headers.get("If-None-Match"))
    key = given_key(exchange)
    draft = await draft_in(exchange)
    reply = await publish(exchange, (draft,), is_queue=is_queue, key=key, only_new=only_new)
    item = reply.ids[0] if reply.ids else draft.id
    is_known = item in reply.known or item in reply.replaced
    where = message_url(exchange, item, is_queue=is_queue)
    return answer(200 if is_known else 201, [("Location", where)], [Link("self", where)])


def _only_new(header: str | None) -> bool:
    if header is None:
        return False
    if header.strip() != "*":
        raise bad_request("If-None-Match is * here")
    return True


def message_url(exchange: Exchange, item: ItemId, *, is_queue: bool | None) -> str:
    """Return the URL of a message."""
    kind = "nodes" if is_queue is None else exchange.destination(is_queue=is_queue)[0]
    return exchange.url(kind, exchange.node, "messages", item)


async def draft_in(exchange: Exchange) -> Draft:
    """Return the item that a request publishes.

    Raises:
        ProblemError: its headers or its body have an error.

    """
    wishes = wishes_of(exchange.request.headers.items())
    body = await exchange.body()
    return draft_of(wishes, body, exchange.face.new_id, exchange.node_at)


async def publish(
    exchange: Exchange,
    drafts: tuple[Draft, ...],
    *,
    is_queue: bool | None,
    key: PublishKey | None = None,
    only_new: bool = False,
) -> Published:
    """Publish these items, all or none.

    Raises:
        ProblemError: the publish is refused.

    """
    node: NodeName = exchange.node
    request = Publish(exchange.by, node, drafts, key=key, queueing=is_queue, only_new=only_new)
    size = sum(len(draft.payload) for draft in drafts)
    reply = await exchange.face.submit(exchange.by, request, size)
    if isinstance(reply, Refused) and only_new and reply.refusal is Refusal.PRECONDITION_NOT_MET:
        raise ProblemError(412, "precondition-failed", reply.reason)
    published: Published = exchange.granted(reply)
    return published
