"""Push consumers of queues, and push subscriptions of topics: XML documents with the targets of messages."""

from __future__ import annotations

import math
import re
import secrets
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Final

from lxml import etree

from pubqueue.faces.http.problems import ProblemError, bad_request, not_found
from pubqueue.faces.rest import push
from pubqueue.faces.rest.batches import parsed
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.hornetq.destinations import MAX_BODY, PUSH, XML
from pubqueue.faces.rest.star.subscribers import check_target
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import ListRegistrations, Register, Unregister
from pubqueue.rules.retrieve import ReadNewer

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.replies import NewerItems

ROOT: Final = "push-registration"
ROOTS: Final = frozenset({ROOT, "push-topic-registration"})
"""The names of the element; HornetQ's manual has the second one for topics."""

METHODS: Final = frozenset({"POST", "PUT"})
MAX_SESSIONS: Final = 16
MAX_HEADERS: Final = 20
MAX_WAIT: Final = 3600.0
"""Seconds between two attempts."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,500}[\x21-\x7e])?")
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
"""Headers that a registration cannot set."""


ELEMENTS: Final = frozenset(
    {"link", "selector", "durable", "header", "authentication"}
    | {"maxRetries", "retryWaitMillis", "disableOnFailure", "sessionCount"}
)
"""The elements of a registration."""


async def create(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Register a target."""
    if exchange.request.content_type != XML:
        raise ProblemError(415, "media-type", f"the body is {XML}")
    root = parsed(await exchange.body(MAX_BODY))
    wanted = _words(exchange, root)
    check_target(exchange, push.filled(wanted.href, "id"))
    await exchange.destined(is_queue=is_queue)
    position = 0
    if not is_queue:
        newer: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
        position = newer.through
    name = secrets.token_hex(8)
    row = Registration(
        *(name, exchange.by.account, exchange.node, is_queue, push.written(wanted)),
        position=position,
    )
    kept: Registrations = await exchange.ask(Register(exchange.by, row))
    exchange.face.pushing.look(kept.entries[0])
    return answer(201, [("Location", _url(exchange, name, is_queue=is_queue))])


def _url(exchange: Exchange, name: str, *, is_queue: bool) -> str:
    return exchange.url(*exchange.destination(is_queue=is_queue), PUSH[is_queue], name)


def _words(exchange: Exchange, root: etree._Element) -> push.HornetqWords:
    """Return the contents of a document.

    Raises:
        ProblemError: it cannot be read, or asks for unsupported features.

    """
    links = root.findall("link")
    tags = [str(one.tag) for one in root.iterchildren(etree.Element)]
    for tag in tags:
        if tag not in ELEMENTS or (tags.count(tag) > 1 and tag not in {"header", "link"}):
            raise bad_request(f"{tag[:100]!a} is not an element of a registration, or occurs twice")
    if root.tag not in ROOTS or len(links) != 1 or not links[0].get("href"):
        raise bad_request(f"the body is an element {ROOT} with one link")
    if (root.findtext("selector") or "").strip():
        raise ProblemError(501, "selector-unsupported", "a consumer gets each message in turn")
    link, rel = links[0], links[0].get("rel", "")
    href = (link.get("href") or "").strip()
    method = link.get("method", "POST").upper()
    if method not in METHODS:
        raise bad_request(f"the method is {' or '.join(sorted(METHODS))}")
    if rel == push.TEMPLATE and href.count(push.ID) != 1:
        raise bad_request("a template has one {id}")
    if rel != push.TEMPLATE and "{" in href:
        raise bad_request("only a template has variables")
    _flag(root, "durable")
    return push.HornetqWords(
        rel=rel,
        href=href,
        base=exchange.base + exchange.profile.prefix,
        method=method,
        type=_plain(link.get("type", ""), "type"),
        headers=_headers(root),
        authorization=_authorization(root),
        retries=_number(root, "maxRetries", 10, 1000),
        wait=min(_number(root, "retryWaitMillis", 1000, 10**9) / 1000, MAX_WAIT),
        disables=_flag(root, "disableOnFailure"),
        window=max(1, _number(root, "sessionCount", 1, MAX_SESSIONS)),
    )


def _plain(text: str, name: str) -> str:
    if text and not _VALUE.fullmatch(text):
        raise bad_request(f"{name} has a character that a header cannot have")
    return text


def _flag(root: etree._Element, name: str) -> bool:
    text = (root.findtext(name) or "false").strip().lower()
    if text not in {"true", "false"}:
        raise bad_request(f"{name} is true or false")
    return text == "true"


def _number(root: etree._Element, name: str, usual: int, most: int) -> int:
    text = (root.findtext(name) or f"{usual}").strip()
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(most)) + 1:
        raise bad_request(f"{name} is a whole number")
    return min(int(text), most)


def _headers(root: etree._Element) -> tuple[tuple[str, str], ...]:
    found = []
    for one in root.findall("header"):
        name, value = one.get("name", ""), (one.text or "").strip()
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS or not _VALUE.fullmatch(value):
            raise bad_request("a header has a name and a value that HTTP can carry")
        found.append((name, value))
    if len(found) > MAX_HEADERS:
        raise bad_request(f"a registration has up to {MAX_HEADERS} headers")
    return tuple(found)


def _authorization(root: etree._Element) -> str:
    """Return the header for Basic authentication, the only one that is supported."""
    wanted = root.find("authentication")
    if wanted is None:
        return ""
    basic = wanted.find("basic-auth")
    user = "" if basic is None else (basic.findtext("username") or "")
    if basic is None or not user or ":" in user:
        raise bad_request("authentication is basic-auth with username and password")
    pair = f"{user}:{basic.findtext('password') or ''}"
    return f"Basic {b64encode(pair.encode()).decode()}"


async def get(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Return a registration, without the values of headers and credentials."""
    row, kept = await _row(exchange, is_queue=is_queue)
    root = etree.Element(ROOT)
    link = etree.SubElement(root, "link", href=kept.href, method=kept.method)
    for name, value in (("rel", kept.rel), ("type", kept.type)):
        if value:
            link.set(name, value)
    texts = {
        "durable": "true",
        "maxRetries": f"{kept.retries}",
        "retryWaitMillis": f"{math.floor(kept.wait * 1000)}",
        "disableOnFailure": f"{kept.disables}".lower(),
        "sessionCount": f"{kept.window}",
        "enabled": f"{not row.disabled}".lower(),
    }
    for name, text in texts.items():
        etree.SubElement(root, name).text = text
    for name, _ in kept.headers:
        etree.SubElement(root, "header", name=name)
    return answer(200, body=etree.tostring(root), kind=XML)


async def _row(exchange: Exchange, *, is_queue: bool) -> tuple[Registration, push.HornetqWords]:
    await exchange.destined(is_queue=is_queue)
    request = ListRegistrations(exchange.by, exchange.node, name=exchange.names["name"])
    page: Registrations = await exchange.ask(request)
    kept = push.read(page.entries[0].words)
    if not isinstance(kept, push.HornetqWords):
        raise not_found("the registration is of the other profile")
    return page.entries[0], kept


async def delete(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """End a registration."""
    row, _ = await _row(exchange, is_queue=is_queue)
    await exchange.ask(Unregister(exchange.by, exchange.node, row.name))
    exchange.face.pushing.end(row.name)
    return answer(204)


create_of_queue, create_of_topic = (partial(create, is_queue=kind) for kind in (True, False))
get_of_queue, get_of_topic = (partial(get, is_queue=kind) for kind in (True, False))
delete_of_queue, delete_of_topic = (partial(delete, is_queue=kind) for kind in (True, False))
