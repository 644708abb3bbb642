"""Messages that wait: holding one, sending it a signal, and reading what has come for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from pubqueue.faces.http.problems import bad_request
from pubqueue.faces.rest import items
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.star.consuming import MAX_SHOWN, check_match, form, token_of
from pubqueue.faces.rest.star.destinations import item_of
from pubqueue.faces.waiting import THENS, came_for, then_of
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import ItemId
from pubqueue.model.waits import NO_WAIT, AtDeadline
from pubqueue.rules.waits import Hold, Signal

if TYPE_CHECKING:
    from collections.abc import Collection

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.decision import Signaled
    from pubqueue.model.entities import Principal

MAX_FORM: Final = 65_536
"""Bytes of a form, in which each character of a text may be three."""

OF_HOLD: Final = ("signal", "within", "then", "carry")
"""The fields of the form of a hold; there may be several of the first."""

OF_SIGNAL: Final = ("signal", "data", "id")


async def hold(exchange: Exchange) -> web.Response:
    """Let the message under this lock wait for what the form says."""
    token = token_of(exchange)
    request = await hold_in(exchange, exchange.by, token)
    check_match(exchange, token)
    reply = await exchange.face.submit(exchange.by, request)
    if isinstance(reply, Refused) and reply.refusal is Refusal.NOT_A_QUEUE:
        raise exchange.no_destination()
    exchange.granted(reply)
    return answer(204)


async def hold_in(exchange: Exchange, by: Principal, token: int) -> Hold:
    """Return the hold of the message in the path, for the holder of this lock.

    Raises:
        ProblemError: the form cannot be read.

    """
    fields = await _fields(exchange, OF_HOLD, several="signal")
    more = dict(fields)
    then = then_of(more.get("then", AtDeadline.DELIVER.value))
    if then is None:
        raise bad_request(f"then is one of {THENS}")
    within = items.span(more["within"], "within") if "within" in more else None
    names = tuple([value for name, value in fields if name == "signal"])
    item = ItemId(exchange.names["id"])
    return Hold(by, exchange.node, item, names, within, then, more.get("carry"), token)


async def signal(exchange: Exchange) -> web.Response:
    """Send the message of the path a signal."""
    more = dict(await _fields(exchange, OF_SIGNAL))
    item, id_ = ItemId(exchange.names["id"]), more.get("id") or exchange.face.new_id()
    name, data = more.get("signal", ""), more.get("data", "")
    request = Signal(exchange.by, exchange.node, item, name, data, id_)
    reply = await exchange.face.submit(exchange.by, request)
    if isinstance(reply, Refused) and reply.refusal is Refusal.NOT_A_QUEUE:
        raise exchange.no_destination()
    found: Signaled = exchange.granted(reply)
    said = {"state": found.state.value, "wakes": found.wakes, "again": found.again}
    return answer(200, body=msgspec.json.encode(said), kind="application/json")


async def waited(exchange: Exchange) -> web.Response:
    """Return what has come for the message of the path, to those who may read the message."""
    return await waited_by(exchange, exchange.by)


async def waited_by(exchange: Exchange, by: Principal) -> web.Response:
    """Return the same to this principal."""
    item, _ = await item_of(exchange, is_queue=True, by=by)
    headers = items.woken_of(item)
    headers.append(("Cache-Control", "no-store"))
    body = came_for(item.wait or NO_WAIT).encode()
    return answer(200, headers, body=body, kind="application/json")


async def _fields(
    exchange: Exchange, known: Collection[str], several: str = ""
) -> list[tuple[str, str]]:
    """Return the fields of a form, of which each is known, and occurs once except one.

    Raises:
        ProblemError: it has others.

    """
    fields = await form(exchange, MAX_FORM)
    names = [name for name, _ in fields]
    for name in names:
        if name not in known or (name != several and names.count(name) > 1):
            raise bad_request(f"the form has no field {name[:MAX_SHOWN]!a}, or has it twice")
    return fields
