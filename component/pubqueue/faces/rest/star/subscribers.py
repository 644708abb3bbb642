"""Subscribers of a destination: targets that its messages are pushed to."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import msgspec
from lxml import etree

from pubqueue.faces.push import signing, targets
from pubqueue.faces.rest.batches.atom import ATOM, parsed
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.items import values
from pubqueue.faces.rest.push import words
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import Enable, ListRegistrations, Register, Unregister
from pubqueue.rules.retrieve import ReadNewer

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.replies import NewerItems

MAX_BODY: Final = 65_536
FORM: Final = "application/x-www-form-urlencoded"
XML: Final = frozenset({"application/atom+xml", "applicatin/atom+xml", "application/xml"})
"""Media types of a registration; the second is the spelling of an early client."""

UNDECLARED: Final = b"<atom:link "
RELS: Final = frozenset({words.PLAIN, words.ONCE})
MEDIA_TYPE: Final = "application/atom+xml"
PAGE: Final = 500

ACTIVE: Final = "active"
DISABLED: Final = "disabled"
STATES: Final = (ACTIVE, DISABLED)


async def post_to_queue(exchange: Exchange) -> web.Response:
    """Register a target for the messages of a queue."""
    return await _post(exchange, is_queue=True)


async def post_to_topic(exchange: Exchange) -> web.Response:
    """Register a target for the messages of a topic."""
    return await _post(exchange, is_queue=False)


async def list_of_queue(exchange: Exchange) -> web.Response:
    """Return the targets of a queue."""
    return await _list(exchange, is_queue=True)


async def list_of_topic(exchange: Exchange) -> web.Response:
    """Return the targets of a topic."""
    return await _list(exchange, is_queue=False)


async def get_of_queue(exchange: Exchange) -> web.Response:
    """Return one target of a queue."""
    return await _get(exchange, is_queue=True)


async def get_of_topic(exchange: Exchange) -> web.Response:
    """Return one target of a topic."""
    return await _get(exchange, is_queue=False)


async def delete_of_queue(exchange: Exchange) -> web.Response:
    """End the pushes of a queue's messages to a target."""
    return await _delete(exchange, is_queue=True)


async def delete_of_topic(exchange: Exchange) -> web.Response:
    """End the pushes of a topic's messages to a target."""
    return await _delete(exchange, is_queue=False)


async def set_of_queue(exchange: Exchange) -> web.Response:
    """Disable or enable a registration of a queue."""
    return await _set(exchange, is_queue=True)


async def set_of_topic(exchange: Exchange) -> web.Response:
    """Disable or enable a registration of a topic."""
    return await _set(exchange, is_queue=False)


async def _set(exchange: Exchange, *, is_queue: bool) -> web.Response:
    if exchange.request.content_type != FORM:
        raise ProblemError(415, "media-type", f"the body is {FORM}")
    state = _field(await exchange.body(MAX_BODY), "state")
    if state not in STATES:
        raise bad_request(f"the state is {' or '.join(STATES)}")
    await exchange.destined(is_queue=is_queue)
    name = exchange.names["name"]
    wanted = Enable(exchange.by, exchange.node, name, disabled=state == DISABLED)
    kept: Registrations = await exchange.ask(wanted)
    if kept.entries[0].disabled:
        exchange.face.pushing.end(name)
    else:
        exchange.face.pushing.look(kept.entries[0])
    return answer(204)


async def _post(exchange: Exchange, *, is_queue: bool) -> web.Response:
    body = await exchange.body(MAX_BODY)
    rel, href = _wanted(exchange.request.content_type, body)
    check_target(exchange, href)
    await exchange.destined(is_queue=is_queue)
    position = 0
    if not is_queue:
        newer: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
        position = newer.through
    name = secrets.token_hex(8)
    options = words.PushWords(rel, href, exchange.base + exchange.profile.prefix)
    row = Registration(
        *(name, exchange.by.account, exchange.node, is_queue, words.written(options)),
        position=position,
    )
    kept: Registrations = await exchange.ask(Register(exchange.by, row))
    exchange.face.pushing.look(kept.entries[0])
    secret = signing.written(exchange.face.pusher.secret(name))
    where = exchange.url(*exchange.destination(is_queue=is_queue), "subscribers", name)
    document = {"id": name, "rel": rel, "href": href, "secret": secret}
    headers = [("Location", where), ("Cache-Control", "no-store")]
    return answer(201, headers, body=msgspec.json.encode(document), kind="application/json")


def check_target(exchange: Exchange, href: str) -> None:
    """Refuse a target that is not a URL, or that may not be called.

    Raises:
        ProblemError: it is such a target.

    """
    try:
        target = targets.read(href)
    except targets.TargetError as problem:
        raise bad_request(f"{problem}") from None
    if not targets.is_allowed(target, exchange.terms.push.push_to):
        detail = "messages may not be pushed to this URL"
        raise ProblemError(403, "target-not-allowed", detail)


def _wanted(media: str, body: bytes) -> tuple[str, str]:
    """Return relation and URL of the link or the form in a body."""
    if media == FORM:
        return words.PLAIN, _field(body, "subscriber")
    if media not in XML:
        detail = f"the body is {MEDIA_TYPE} or {FORM}"
        raise ProblemError(415, "media-type", detail)
    if body.lstrip().startswith(UNDECLARED) and b"xmlns:atom" not in body:
        body = body.replace(UNDECLARED, UNDECLARED + f'xmlns:atom="{ATOM}" '.encode(), 1)
    root = parsed(body)
    links = [root] if _is_link(root) else [one for one in root if _is_link(one)]
    if len(links) != 1:
        raise bad_request("the body has one link")
    rel, href = links[0].get("rel", ""), (links[0].get("href") or "").strip()
    if rel not in RELS or not href:
        raise bad_request(f"the link has a URL and one of the relations {', '.join(sorted(RELS))}")
    return rel, href


def _is_link(element: etree._Element) -> bool:
    return element.tag in {"link", f"{{{ATOM}}}link"}


def _field(body: bytes, wanted: str) -> str:
    """Return the one value of a field of a form."""
    try:
        fields = parse_qsl(body.decode(), strict_parsing=True, errors="strict")
    except ValueError:
        raise bad_request("the form cannot be read") from None
    found = [value for name, value in fields if name == wanted]
    if len(found) != 1 or not found[0]:
        raise bad_request(f"the form has one {wanted}")
    return values.without_nul(found[0], wanted)


async def _list(exchange: Exchange, *, is_queue: bool) -> web.Response:
    await exchange.destined(is_queue=is_queue)
    after = values.without_nul(exchange.request.query.get("after", ""), "after")
    page: Registrations = await exchange.ask(
        ListRegistrations(exchange.by, exchange.node, after, PAGE)
    )
    feed = etree.Element(f"{{{ATOM}}}feed", nsmap={None: ATOM})  # type: ignore[dict-item]  # None is the default namespace
    for row in page.entries:
        if not isinstance(words.read(row.words), words.PullWords):
            feed.append(_link(exchange, row))
    links = []
    if page.more:
        place = exchange.destination(is_queue=is_queue)
        tail = f"?after={page.entries[-1].name}"
        links.append(exchange.link("next", *place, "subscribers", tail=tail))
    return answer(200, links=links, body=etree.tostring(feed), kind=MEDIA_TYPE)


async def _get(exchange: Exchange, *, is_queue: bool) -> web.Response:
    await exchange.destined(is_queue=is_queue)
    request = ListRegistrations(exchange.by, exchange.node, name=exchange.names["name"])
    page: Registrations = await exchange.ask(request)
    link = _link(exchange, page.entries[0])
    return answer(200, body=etree.tostring(link), kind=MEDIA_TYPE)


async def _delete(exchange: Exchange, *, is_queue: bool) -> web.Response:
    await exchange.destined(is_queue=is_queue)
    name = exchange.names["name"]
    await exchange.ask(Unregister(exchange.by, exchange.node, name))
    exchange.face.pushing.end(name)
    return answer(204)


def _link(exchange: Exchange, row: Registration) -> etree._Element:
    """Return a registration as an Atom link, with its state."""
    options = words.read(row.words)
    link = etree.Element(f"{{{ATOM}}}link", nsmap={None: ATOM})  # type: ignore[dict-item]  # None is the default namespace
    kind = "queues" if row.queueing else "topics"
    values = {
        "rel": options.rel,
        "href": options.href,
        "id": row.name,
        "self": exchange.url(kind, row.node, "subscribers", row.name),
        "state": DISABLED if row.disabled else ACTIVE,
        "failures": f"{row.failures}",
        "error": row.error,
    }
    for name, value in values.items():
        link.set(name, value)
    return link
