"""Taking a message from a queue: locked to the account, with a link that acknowledges it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.http.host import connection
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http.links import Link
from pubqueue.faces.rest.http.problems import ProblemError, not_found
from pubqueue.faces.rest.http.waits import wait_of
from pubqueue.faces.rest.items import values
from pubqueue.faces.rest.items.delivered import body_of, headers_of
from pubqueue.model.decision import Refusal

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.http.waits import Wait
    from pubqueue.model.entities import Item


async def take(exchange: Exchange) -> web.Response:
    """Return the next message of the queue, waiting for it if asked to."""
    check_selector(exchange)
    await exchange.no_body()
    wait = wait_of(exchange.request.headers, exchange.terms.longest_wait)
    try:
        taken = await exchange.take(exchange.node, wait.seconds)
    except ProblemError as problem:
        if problem.refusal is Refusal.NOT_A_QUEUE:
            raise not_found("there is no such destination") from None
        raise
    if not taken.items:
        return nothing(exchange, wait)
    if not connection().is_open:
        exchange.face.waiting.give_back(exchange.by, taken)
        raise ConnectionResetError
    item, payload = taken.items[0]
    response = message(exchange, item, payload, is_queue=True)
    prefer(response, wait)
    return response


def check_selector(exchange: Exchange) -> None:
    """Refuse a request for some of the messages: a consumer that got all of them would do harm.

    Raises:
        ProblemError: it has a selector.

    """
    if exchange.request.query.get("selector") or exchange.request.headers.get("Message-Selector"):
        raise ProblemError(501, "selector-unsupported", "a consumer gets each message in turn")


def nothing(exchange: Exchange, wait: Wait) -> web.Response:
    """Return the answer when there was no message in time, according to the setting `nothing`."""
    status = exchange.terms.nothing
    if status == 503:  # noqa: PLR2004
        response = ProblemError(503, "nothing-yet").response()
    else:
        response = answer(status)
        if status == 202:  # noqa: PLR2004
            response.headers["Location"] = exchange.base + exchange.request.path_qs
            response.headers["Retry-After"] = "1"
    prefer(response, wait)
    return response


def prefer(response: web.Response, wait: Wait) -> None:
    """Add which preference was applied."""
    if wait.applied:
        response.headers["Preference-Applied"] = wait.applied


def message(exchange: Exchange, item: Item, payload: bytes, *, is_queue: bool) -> web.Response:
    """Return a message: its body, its headers, and its links; with the lock if the account holds it."""
    place = exchange.destination(is_queue=is_queue)
    here = exchange.url(*place, "messages", item.id)
    kind, body = body_of(item, payload)
    headers = headers_of(item, exchange.reply_url)
    headers.append(("Content-Location", here))
    links = [Link("self", here), exchange.link("generator", *place)]
    if item.holder is not None and item.holder == exchange.by.jid:
        where = acknowledgement(exchange, item)
        headers.append(("ETag", f'"{item.token}"'))
        if item.deadline is not None:
            headers.append(("Message-Deadline", values.moment(item.deadline)))
        headers.append(("msg-acknowledgement", where))
        links.insert(0, Link("acknowledgement", where))
    elif is_queue:
        headers.append(("ETag", f'"{item.token}"'))
    else:
        headers.append(("ETag", f'"{item.seq}"'))
        links.append(exchange.link("next", *place, "after", f"{item.seq}"))
    headers.append(("Cache-Control", "no-store"))
    return answer(200, headers, links, body=body, kind=kind)


def acknowledgement(exchange: Exchange, item: Item) -> str:
    """Return the URL that acknowledges an item under its lock."""
    place = exchange.destination(is_queue=True)
    return exchange.url(*place, "messages", item.id, "acknowledgement", tail=f";etag={item.token}")
