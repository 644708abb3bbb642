"""Pull consumers of queues and pull subscriptions of topics."""

from __future__ import annotations

import re
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

from pubqueue.faces.http.host import connection
from pubqueue.faces.http.problems import ProblemError, bad_request, not_found, refused
from pubqueue.faces.rest import push
from pubqueue.faces.rest.exchange import answer, share, wait_of
from pubqueue.faces.rest.face import Sent, address_of
from pubqueue.faces.rest.hornetq.destinations import PULL, fields_of, linked
from pubqueue.faces.rest.items import headers_of
from pubqueue.faces.rest.links import Link, path
from pubqueue.faces.rest.star.consuming import (
    FORM,
    form,
    nothing,
    number_of,
    prefer,
    token_of,
    verdict_of,
)
from pubqueue.faces.rest.star.waits import hold_in, waited_by
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NO_TIME, ItemId, Jid, Millis, seconds
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import ListRegistrations, NotePush, Register
from pubqueue.rules.settle import Settle, Verb

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange, Wait
    from pubqueue.model.entities import Item, Principal
    from pubqueue.rules.unlock import Touch
    from pubqueue.rules.waits import Hold


# Pull consumers of queues: created, asked for messages, and given acknowledgements.
#
# The position of a consumer is the token of the message that it got last. With `autoAck` it is the number in its links; a consumer without
# has one link for messages, and what is locked to it is its message.

GONE: Final = frozenset({403, 404, 409, 412})
"""Statuses of a message that is not the consumer's any more: HornetQ has one answer for them."""


async def create(exchange: Exchange) -> web.Response:
    """Create a consumer."""
    kind, _ = await wishes_of(exchange, OF_QUEUE)
    name = secrets.token_hex(8)
    row = await made(exchange, name, is_queue=True)
    where = url_of(exchange, kind, name)
    return linked(201, [due(row, kind, where)], [("Location", where)])


async def consume(exchange: Exchange) -> web.Response | web.StreamResponse:
    """Return the next message, and retract it when it was sent."""
    number = number_of(exchange)
    by, where = consumer_of(exchange, AUTO)
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    consumers = exchange.face.pulling
    async with consumers.turn(by, exchange.node):
        row = await kept(exchange, wait)
        if row is None:
            row = await made(exchange, exchange.names["name"], is_queue=True, position=number)
        if number != row.position:
            sent = consumers.sent(by, exchange.node)
            if sent is None or (sent.number, sent.token) != (number, row.position):
                raise stale(row, where)
            if sent.message is not None:
                content = await exchange.rendered(*sent.message)
                links = [due(row, AUTO, where), itself(where)]
                return message_with(exchange, sent.message[0], content, links)
        found = await _unsent(exchange, by, row) or await _take(exchange, by, wait.seconds)
        if found is None:
            return nothing_yet(exchange, row, AUTO, where)
        try:
            content = await exchange.rendered(*found)
            # the message that the consumer gets is recorded before it is sent: the next request may go to another instance
            row = await noted(exchange, note_of(exchange, row, position=found[0].token))
        except BaseException:  # the consumer was closed meanwhile, or the client has gone
            consumers.release(by, exchange.node, found[0])
            raise
        links = [due(row, AUTO, where), itself(where)]
        response = message_with(exchange, found[0], content, links)
        prefer(response, wait)
        await _send(exchange, by, response, Sent(number, row.position, found))
        return response


async def _unsent(
    exchange: Exchange, by: Principal, row: Registration
) -> tuple[Item, bytes] | None:
    """Return a message that was taken for the consumer, and not sent yet: its process has ended, or another request is about to send it."""
    held = await exchange.face.pulling.held(by, exchange.node)
    return next((one for one in held if one[0].token > row.position), None)


async def _send(exchange: Exchange, by: Principal, response: web.Response, sent: Sent) -> None:
    """Send a message, and retract it once it was written; if that fails, it is released, and the same link has the next one."""
    assert sent.message is not None
    consumers, item = exchange.face.pulling, sent.message[0]
    try:
        await send(exchange, response)
    except BaseException:
        consumers.note_sent(by, exchange.node, Sent(sent.number, sent.token, None))
        consumers.release(by, exchange.node, item)
        raise
    consumers.note_sent(by, exchange.node, sent)
    settle = Settle(by, exchange.node, (item.id,), Verb.RETRACT, token=item.token, late=True)
    exchange.face.broker.submit(settle, lambda _reply: None)


async def acknowledge_next(exchange: Exchange) -> web.Response:
    """Return the next message, or the one that is not acknowledged yet."""
    number_of(exchange)
    by, where = consumer_of(exchange, MANUAL)
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    async with exchange.face.pulling.turn(by, exchange.node):
        row = await kept(exchange, wait)
        if row is None:
            row = await made(exchange, exchange.names["name"], is_queue=True)
        held = await exchange.face.pulling.held(by, exchange.node)
        found = held[0] if held else await _only(exchange, by, wait.seconds)
        if found is None:
            return nothing_yet(exchange, row, MANUAL, where)
        links = [_open(found[0], where), itself(where)]
        links += of_waits(exchange, found[0], where)
        response = message_with(exchange, found[0], await exchange.rendered(*found), links)
        prefer(response, wait)
        return response


async def _only(exchange: Exchange, by: Principal, seconds: float) -> tuple[Item, bytes] | None:
    """Take the next message; if another instance has taken one for the consumer meanwhile, that is its message."""
    if (found := await _take(exchange, by, seconds)) is None:
        return None
    first = next(iter(await exchange.face.pulling.held(by, exchange.node)), found)
    if first[0].token < found[0].token:
        exchange.face.pulling.release(by, exchange.node, found[0])
        return first
    return found


async def acknowledge(exchange: Exchange) -> web.Response:
    """Settle a message of the consumer, and return the link to the next one."""
    token = token_of(exchange)
    by, where = consumer_of(exchange, MANUAL)
    verdict = verdict_of(await form(exchange))
    following = await _following(exchange, where)
    item, remember = ItemId(exchange.names["id"]), seconds(exchange.settings.settled_for)
    request = verdict.request(by, exchange.node, item, token, remember)
    return await _settle(exchange, by, request, following)


async def hold(exchange: Exchange) -> web.Response:
    """Let a message of the consumer wait for what the form says, and return the link to the next one."""
    by, where = consumer_of(exchange, MANUAL)
    request = await hold_in(exchange, by, token_of(exchange))
    return await _settle(exchange, by, request, await _following(exchange, where))


def of_waits(exchange: Exchange, item: Item, where: str) -> list[Link]:
    """Return the links to hold a message, to send it a signal, and to what has come for it, if that is known."""
    place = exchange.destination(is_queue=True)
    return [
        Link("hold", where + path("hold", item.id, f"{item.token}")),
        exchange.link("signal", *place, "messages", item.id, "signals"),
        *([Link("waited", where + path("waited", item.id))] if item.wait is not None else []),
    ]


async def waited(exchange: Exchange) -> web.Response:
    """Return what has come for a message of the consumer."""
    by, _ = consumer_of(exchange, MANUAL)
    return await waited_by(exchange, by)


async def _following(exchange: Exchange, where: str) -> Link:
    row = await kept(exchange)
    return Link("acknowledge-next", f"{where}/acknowledge-next-{row.position if row else 0}")


async def _settle(
    exchange: Exchange, by: Principal, request: Settle | Touch | Hold, following: Link
) -> web.Response:
    """Have a request for the message of a consumer done, if it still has that message."""
    held = await exchange.face.pulling.held(by, exchange.node)
    if held and all(item.token != request.token for item, _ in held):
        raise lost(following)
    try:
        exchange.granted(await exchange.face.submit(exchange.by, request))
    except ProblemError as problem:
        if problem.status in GONE:
            raise lost(following) from None
        raise
    return linked(204, [following])


async def look(exchange: Exchange) -> web.Response:
    """Return the link that is due."""
    kind = exchange.names["kind"]
    by, where = consumer_of(exchange, kind)
    row = await row_of(exchange)
    held = await exchange.face.pulling.held(by, exchange.node) if kind == MANUAL else []
    if held:
        return linked(204, [_open(held[0][0], where)])
    if row is None:
        raise not_found("there is no such consumer")
    return linked(204, [due(row, kind, where)])


async def delete(exchange: Exchange) -> web.Response:
    """Close a consumer; its message is released before the answer."""
    by, _ = consumer_of(exchange, exchange.names["kind"])
    row = await row_of(exchange)
    submit = partial(exchange.face.submit, exchange.by)
    if row is not None:
        # a message of its position is being retracted
        exchange.granted(await exchange.face.pulling.close(row, submit, row.position))
        return answer(204)
    held = await exchange.face.pulling.held(by, exchange.node)
    if not held:
        raise not_found("there is no such consumer")
    for item, _ in held:
        await submit(Settle(by, exchange.node, (item.id,), Verb.UNLOCK, token=item.token))
    return answer(204)


async def _take(exchange: Exchange, by: Principal, seconds: float) -> tuple[Item, bytes] | None:
    """Take the next message for the consumer, None if none arrived in time."""
    taken = await exchange.take(exchange.node, seconds, by)
    if not taken.items:
        return None
    if not connection().is_open:
        exchange.face.waiting.give_back(by, taken)
        raise ConnectionResetError
    found: tuple[Item, bytes] = taken.items[0]
    return found


def _open(item: Item, where: str) -> Link:
    return acknowledgement_of(item, item.token, where)


# The common parts of pull consumers of queues and pull subscriptions of topics: their paths, links and answers.

AUTO, MANUAL = "1", "2"
"""The segment in the path of a consumer: whether it acknowledges messages as they are sent."""

_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


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


def due(row: Registration, kind: str, where: str) -> Link:
    """Return the link to the next message."""
    rel = "consume-next" if kind == AUTO else "acknowledge-next"
    return Link(rel, f"{where}/{rel}-{row.position}")


def itself(where: str) -> Link:
    """Return the link to the consumer."""
    return Link("consumer", where)


def acknowledgement_of(item: Item, number: int, where: str) -> Link:
    """Return the link that acknowledges a message, by the token of its lock or by its number in a topic."""
    return Link("acknowledgement", where + path("acknowledgement", item.id, f"{number}"))


def stale(row: Registration, where: str) -> ProblemError:
    """Return the problem of a link that is not due, with the one that is."""
    headers = fields_of([due(row, AUTO, where)])
    return ProblemError(412, "precondition-failed", "this link was used", headers=headers)


def nothing_yet(exchange: Exchange, row: Registration, kind: str, where: str) -> web.Response:
    """Return the answer when there was no message in time, with the link, which stays valid."""
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    response = nothing(exchange, wait)
    for name, value in fields_of([due(row, kind, where)]):
        response.headers.add(name, value)
    return response


def message_with(
    exchange: Exchange, item: Item, content: tuple[str, bytes], links: list[Link]
) -> web.Response:
    """Return a message, of which content type and body are rendered, with these links."""
    kind, body = content
    headers = [*headers_of(item, exchange.reply_url), ("Cache-Control", "no-store")]
    return linked(200, links, headers, body=body, kind=kind)


# The registration of a consumer or subscription, which any instance reads: its position, and until when it is in use.

RUNNER: Final = ""
"""No process works on a registration that is pulled: any process records its position."""


async def made(
    exchange: Exchange, name: str, *, is_queue: bool, position: int = 0, is_durable: bool = False
) -> Registration:
    """Create a consumer, which is closed when it is not used for long, unless it is durable.

    Raises:
        ProblemError: the account may not have it, or has too many.

    """
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    _, until = exchange.face.pulling.until(wait.seconds)
    row = Registration(
        name,
        exchange.by.account,
        exchange.node,
        is_queue,
        push.written(push.PullWords()),
        position=position,
        until=Millis(0) if is_durable else until,
    )
    page: Registrations = await exchange.ask(Register(exchange.by, row))
    return page.entries[0]


async def row_of(exchange: Exchange, name: str = "") -> Registration | None:
    """Return the consumer of this name of the account, by default the one in the path; None if there is none.

    Raises:
        ProblemError: the store did not answer.

    """
    request = ListRegistrations(exchange.by, exchange.node, name=name or exchange.names["name"])
    reply = await exchange.face.submit(exchange.by, request)
    if isinstance(reply, Registrations):
        row = reply.entries[0]
        is_pull = isinstance(push.read(row.words), push.PullWords)
        return row if is_pull and row.account == exchange.by.account else None
    if isinstance(reply, Refused) and reply.refusal is not Refusal.ITEM_NOT_FOUND:
        raise refused(reply)
    return None


async def kept(exchange: Exchange, wait: Wait | None = None) -> Registration | None:
    """Return the consumer of the path, which is in use until the end of the wait and for long after it; None if there is none."""
    row = await row_of(exchange)
    if row is None or not row.is_pulled:
        return row
    needed, until = exchange.face.pulling.until(wait.seconds if wait else 0.0)
    if needed <= row.until <= exchange.face.pulling.latest:
        return row
    try:
        return await noted(exchange, note_of(exchange, row, following=row.following, until=until))
    except ProblemError as problem:
        if problem.refusal is Refusal.ITEM_NOT_FOUND:
            return None  # it was closed in this moment
        raise


async def noted(exchange: Exchange, note: NotePush) -> Registration:
    """Record what became of a consumer, and return it.

    Raises:
        ProblemError: it was closed meanwhile.

    """
    page: Registrations = await exchange.ask(note)
    return page.entries[0]


def note_of(
    exchange: Exchange,
    row: Registration,
    *,
    position: int = 0,
    following: str = "",
    until: Millis = NO_TIME,
) -> NotePush:
    """Return the request that records what became of a consumer."""
    service = exchange.face.pulling.service
    latest = exchange.face.pulling.latest if row.is_pulled else None
    return NotePush(
        service,
        row.name,
        RUNNER,
        position=position,
        following=following,
        until=until,
        latest=latest,
    )


OF_QUEUE: Final = ("autoAck", "selector")
OF_TOPIC: Final = (*OF_QUEUE, "durable", "name")
"""The fields of the form of a new consumer."""


async def wishes_of(exchange: Exchange, names: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return the kind of a new consumer, and its form, which may be missing.

    Raises:
        ProblemError: it cannot be read, or has a selector.

    """
    wishes: dict[str, str] = {}
    if exchange.request.content_type == FORM and "Content-Type" in exchange.request.headers:
        fields = await form(exchange)
        wishes = dict(fields)
        if len(wishes) < len(fields) or not wishes.keys() <= set(names):
            raise bad_request(f"the form has {', '.join(names)}, each once")
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
    """Send an answer; return once the system has taken it.

    Raises:
        ConnectionError: the client has gone.

    """
    share(response, exchange.request.headers, exchange.settings.cors_origins)
    with connection().counting_all():
        await response.prepare(exchange.request)
        await response.write_eof()
