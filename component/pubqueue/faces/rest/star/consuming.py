"""Taking messages from a queue, and their acknowledgement."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from msgspec import Struct

from pubqueue.faces.http.host import connection
from pubqueue.faces.http.problems import ProblemError, bad_request, not_found
from pubqueue.faces.rest import items
from pubqueue.faces.rest.exchange import answer, wait_of
from pubqueue.faces.rest.items import headers_of
from pubqueue.faces.rest.links import Link
from pubqueue.model.decision import Done, Refusal, Refused, Touched
from pubqueue.model.entities import NUMBER, ItemId, Millis, seconds
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange, Wait
    from pubqueue.model.decision import Retrieved
    from pubqueue.model.entities import Item, NodeName, Principal


# Taking a message from a queue: locked to the account, with a link that acknowledges it.


async def take(exchange: Exchange) -> web.Response:
    """Return the next message of the queue, waiting for it if asked to."""
    check_selector(exchange)
    await exchange.no_body()
    wait = wait_of(exchange.request.headers, exchange.settings.longest_wait)
    try:
        taken = await exchange.take(exchange.node, wait.seconds)
    except ProblemError as problem:
        if problem.refusal is Refusal.NOT_A_QUEUE:
            raise exchange.no_destination() from None
        raise
    if not taken.items:
        return nothing(exchange, wait)
    if not connection().is_open:
        exchange.face.waiting.give_back(exchange.by, taken)
        raise ConnectionResetError
    try:
        response = await message(exchange, *taken.items[0], is_queue=True)
    except BaseException:  # the client has gone, or too much is kept for others
        exchange.face.waiting.give_back(exchange.by, taken)
        raise
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
    """Return the answer when there was no message in time, according to the setting `nothing`.

    Unset: 204 to a client that waits by `Prefer` (RFC 7240), and 503 to others, as the texts of REST-* have it (decision 158).
    """
    status = exchange.settings.nothing or (204 if wait.applied else 503)
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


async def message(
    exchange: Exchange, item: Item, payload: bytes, *, is_queue: bool
) -> web.Response:
    """Return a message: its body, its headers, and its links; with the lock if the account holds it."""
    kind, body = await exchange.rendered(item, payload)
    place = exchange.destination(is_queue=is_queue)
    here = exchange.url(*place, "messages", item.id)
    headers = headers_of(item, exchange.reply_url)
    headers.append(("Content-Location", here))
    links = [Link("self", here), exchange.link("generator", *place)]
    if item.holder is not None and item.holder == exchange.by.jid:
        where = acknowledgement(exchange, item)
        headers.append(("ETag", f'"{item.token}"'))
        if item.deadline is not None:
            headers.append(("Message-Deadline", items.moment(item.deadline)))
        headers.append(("msg-acknowledgement", where))
        links.insert(0, Link("acknowledgement", where))
        tail = f";etag={item.token}"
        links.append(exchange.link("hold", *place, "messages", item.id, "hold", tail=tail))
        links.append(exchange.link("signal", *place, "messages", item.id, "signals"))
    elif is_queue:
        headers.append(("ETag", f'"{item.token}"'))
    else:
        headers.append(("ETag", f'"{item.seq}"'))
        links.append(exchange.link("next", *place, "after", f"{item.seq}"))
    if item.wait is not None:
        links.append(exchange.link("waited", *place, "messages", item.id, "waited"))
    headers.append(("Cache-Control", "no-store"))
    return answer(200, headers, links, body=body, kind=kind)


def acknowledgement(exchange: Exchange, item: Item) -> str:
    """Return the URL that acknowledges an item under its lock."""
    place = exchange.destination(is_queue=True)
    return exchange.url(*place, "messages", item.id, "acknowledgement", tail=f";etag={item.token}")


# The acknowledgement of a message: by the URL in its headers, which contains the token of the lock.

FORM: Final = "application/x-www-form-urlencoded"
MAX_FORM: Final = 16_384
"""Bytes of the form."""

VERDICTS: Final = ("acknowledge", "acknowledgement")
"""Names of the verdict: the one in the posts, and that of an earlier server."""

FIELDS: Final = (*VERDICTS, "touch", "outcome", "delay", "reason")
"""The fields of the form."""

MAX_SHOWN: Final = 100
"""Characters of a name that are repeated."""

_TOKEN: Final = re.compile(NUMBER)


class Verdict(Struct, frozen=True):
    """The verdict of a form: done, or not done and why, or extended."""

    is_done: bool = False
    outcome: Outcome = Outcome.RELEASE
    delay: Millis | None = None
    reason: str = ""
    touch: Millis | None = None

    def request(
        self, by: Principal, node: NodeName, item: ItemId, token: int, remember: Millis
    ) -> Settle | Touch:
        """Return the request to settle or to touch an item under a lock."""
        ids = (item,)
        if self.touch is not None:
            return Touch(by, node, ids, self.touch, token)
        return Settle(
            *(by, node, ids, Verb.RETRACT if self.is_done else Verb.UNLOCK),
            queue_only=True,
            outcome=self.outcome,
            delay=self.delay,
            reason=self.reason,
            token=token,
            remember=remember,
        )


def number_of(exchange: Exchange, name: str = "number", what: str = "link") -> int:
    """Return a number in the path.

    Raises:
        ProblemError: it is not valid.

    """
    text = exchange.names[name]
    if not _TOKEN.fullmatch(text):
        raise not_found(f"there is no such {what}")
    return int(text)


token_of: Final = partial(number_of, name="token", what="acknowledgement")
"""Returns the token in the path."""


async def acknowledge(exchange: Exchange) -> web.Response:
    """Settle a message under the lock in the URL, or extend the lock."""
    token = token_of(exchange)
    verdict = verdict_of(await form(exchange))
    check_match(exchange, token)
    return await settle(exchange, verdict, token)


async def look(exchange: Exchange) -> web.Response:
    """Answer 204 while the lock holds, 410 after."""
    token = token_of(exchange)
    request = Retrieve(exchange.by, exchange.node, (ItemId(exchange.names["id"]),))
    found: Retrieved = await exchange.ask(request)
    item = found.items[0][0] if found.items else None
    if item is None or item.token != token or item.deadline is None:
        raise ProblemError(410, "lock-lost", "the message is no longer under this lock")
    if item.holder != exchange.by.jid:
        raise ProblemError(403, "forbidden", "the lock is another account's")
    headers = [("ETag", f'"{token}"'), ("Message-Deadline", items.moment(item.deadline))]
    return answer(204, headers)


async def settle(exchange: Exchange, verdict: Verdict, token: int) -> web.Response:
    """Settle the message of the path under this lock.

    Raises:
        ProblemError: it does not have this lock.

    """
    item, remember = ItemId(exchange.names["id"]), seconds(exchange.settings.settled_for)
    request = verdict.request(exchange.by, exchange.node, item, token, remember)
    reply = await exchange.face.submit(exchange.by, request)
    if isinstance(reply, Refused) and reply.refusal is Refusal.NOT_A_QUEUE:
        raise exchange.no_destination()
    found = exchange.granted(reply)
    if isinstance(found, Done) and found.again:
        text = (
            "already acknowledged" if verdict.is_done else "already settled with acknowledge=false"
        )
        raise ProblemError(405, "already-done", text, headers=[("Allow", "OPTIONS")])
    headers = []
    if isinstance(found, Touched):
        headers.append(("Message-Deadline", items.moment(found.entries[0][1])))
    return answer(204, headers)


def check_match(exchange: Exchange, token: int) -> None:
    """Refuse if the header `If-Match` names another lock than the URL.

    Raises:
        ProblemError: it does.

    """
    tags = exchange.request.headers.get("If-Match")
    if tags is None or tags.strip() == "*":
        return
    if f'"{token}"' not in [one.strip() for one in tags.split(",")]:
        raise ProblemError(412, "precondition-failed", "If-Match names another lock")


async def form(exchange: Exchange, limit: int = MAX_FORM) -> list[tuple[str, str]]:
    """Return the fields of a form of up to so many bytes.

    Raises:
        ProblemError: the body is something else.

    """
    if exchange.request.content_type != FORM or "Content-Type" not in exchange.request.headers:
        raise ProblemError(415, "media-type", f"the body is {FORM}")
    body = await exchange.body(limit)
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=bool(body), errors="strict"
        )
    except ValueError:
        raise bad_request("the form cannot be read") from None
    return [(name, items.without_nul(value, name)) for name, value in fields]


def verdict_of(fields: list[tuple[str, str]]) -> Verdict:
    """Return the verdict of a form.

    Raises:
        ProblemError: it has no verdict, more than one, or a value that cannot be read.

    """
    names = [name for name, _ in fields]
    if other := next((name for name in names if name not in FIELDS or names.count(name) > 1), None):
        raise bad_request(f"the form has no field {other[:MAX_SHOWN]!a}, or has it twice")
    verdicts = [value for name, value in fields if name in VERDICTS]
    touches = [value for name, value in fields if name == "touch"]
    if len(verdicts) + len(touches) != 1:
        raise bad_request("the form has one of acknowledge and touch, once")
    if len(fields) > 1 and (touches or verdicts[0] == "true"):
        raise bad_request("outcome, delay and reason are for acknowledge=false")
    if touches:
        return Verdict(touch=items.span(touches[0], "touch"))
    if verdicts[0] not in {"true", "false"}:
        raise bad_request("acknowledge is true or false")
    more = dict(fields)
    if verdicts[0] == "true":
        return Verdict(is_done=True)
    delay = items.span(more["delay"], "delay") if "delay" in more else None
    try:
        outcome = Outcome(more.get("outcome", Outcome.RELEASE.value))
    except ValueError:
        words = ", ".join(one.value for one in Outcome)
        raise bad_request(f"outcome is one of {words}") from None
    return Verdict(outcome=outcome, delay=delay, reason=more.get("reason", ""))
