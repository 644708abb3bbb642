"""Queues and topics of HornetQ, the messages created in them, and their links."""

from __future__ import annotations

import re
import secrets
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from lxml import etree
from msgspec.structs import replace

from pubqueue.faces.http.problems import ProblemError, bad_request
from pubqueue.faces.rest import items, openapi
from pubqueue.faces.rest.batches import ATOM, parsed
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.links import Link
from pubqueue.faces.rest.star.publishing import draft_in, publish, published_under
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Millis, NodeName, seconds
from pubqueue.model.records import PublishKey
from pubqueue.rules.nodes import Create

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.entities import Draft, ItemId


# Queues and topics: their links, and how they are created and deleted.

XML: Final = "application/xml"
MAX_BODY: Final = 65_536

MEDIA: Final = {
    is_queue: frozenset(
        {
            *(XML, "application/activemq.xml"),
            *(f"application/{name}.jms.{kind}+xml" for name in ("activemq", "hornetq")),
        }
    )
    for is_queue, kind in ((True, "queue"), (False, "topic"))
}
"""Media types of a new destination."""


PULL: Final = {True: "pull-consumers", False: "pull-subscriptions"}
PUSH: Final = {True: "push-consumers", False: "push-subscriptions"}
"""The relations of queues and of topics, which are the last parts of paths too."""


def links_of(exchange: Exchange, *, is_queue: bool) -> list[Link]:
    """Return the links of a destination."""
    place = exchange.destination(is_queue=is_queue)
    create = exchange.link("create", *place, "create")
    rels = PULL[is_queue], PUSH[is_queue]
    template = Link("create-with-id", f"{create.url}/{{id}}")
    described = exchange.link("service-desc", openapi.PATH, kind=openapi.OPENAPI_TYPE)
    return [create, template, *(exchange.link(rel, *place, rel) for rel in rels), described]


async def get(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Return the links of a destination, and a document with them."""
    await exchange.destined(is_queue=is_queue)
    links = links_of(exchange, is_queue=is_queue)
    root = etree.Element("queue" if is_queue else "topic", nsmap={"atom": ATOM})
    etree.SubElement(root, "name").text = exchange.node
    for link in links:
        if "{" not in link.url:
            etree.SubElement(root, f"{{{ATOM}}}link", rel=link.rel, href=link.url)
    return linked(200, links, body=etree.tostring(root), kind=XML)


async def create(exchange: Exchange, *, is_queue: bool) -> web.Response:
    """Create a destination that does not exist."""
    if exchange.request.content_type not in MEDIA[is_queue]:
        raise ProblemError(415, "media-type", f"the body is {XML}")
    tag = "queue" if is_queue else "topic"
    root = parsed(await exchange.body(MAX_BODY))
    name = root.get("name", "")
    if root.tag != tag or not name:
        raise bad_request(f"the body is an element {tag} with a name")
    durable = [(one.text or "").strip() for one in root.iterchildren("durable")]
    if len(durable) > 1 or len(root) > len(durable) or set(root.attrib) != {"name"}:
        raise bad_request(f"the element {tag} has a name, and may have durable, but nothing else")
    if not set(durable) <= {"true", "false"}:  # what is not durable may be kept
        raise bad_request("durable is true or false")
    settings = exchange.face.read_form({"x-queueing#enabled": ["1" if is_queue else "0"]})
    reply = await exchange.face.submit(exchange.by, Create(exchange.by, NodeName(name), settings))
    if isinstance(reply, Refused) and reply.refusal is Refusal.NODE_EXISTS:
        raise ProblemError(412, "precondition-failed", "the destination exists")
    exchange.granted(reply)
    return answer(201, [("Location", exchange.url(f"{tag}s", name))])


get_queue, get_topic = partial(get, is_queue=True), partial(get, is_queue=False)
create_queue, create_topic = partial(create, is_queue=True), partial(create, is_queue=False)


# Creating messages: by a plain POST, or under an id that is used once, so that a request can be repeated.

PRIORITIES: Final = range(10)
"""Priorities of JMS. Others are ignored."""

_NUMBER: Final = re.compile(r"-?\d{1,15}", re.ASCII)


async def create_message(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    """Publish a message; without `dups_ok` the client is redirected to a URL with an id of its own instead."""
    if not exchange.settings.dups_ok:
        return await _redirect(exchange, is_queue=is_queue)
    draft = wished(exchange, await draft_in(exchange, is_queue=is_queue))
    reply = await publish(exchange, (draft,), is_queue=is_queue)
    item = reply.ids[0] if reply.ids else draft.id
    return _created(exchange.url(*_place(exchange, is_queue=is_queue), "create"), item)


async def create_with_id(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    """Publish a message under an id, unless one was published under it: that is 201 too, whatever is sent now."""
    key = key_of(exchange)
    try:
        draft = wished(exchange, await draft_in(exchange, is_queue=is_queue))
        reply = await publish(exchange, (draft,), is_queue=is_queue, key=key)
        ids = reply.ids or (draft.id,)
    except ProblemError:
        found = await published_under(exchange, key.name)
        if found is None:
            raise
        ids = found
    return _created(_unused(exchange, is_queue=is_queue), ids[0])


def key_of(exchange: Exchange) -> PublishKey:
    """Return the key of the id in the path; ids of clients and ours are one space of an account."""
    mark = blake2b(exchange.names["id"].encode(), digest_size=20).hexdigest()
    return PublishKey(f"id.{mark}", seconds(exchange.settings.once_for))


async def _redirect(exchange: Exchange, *, is_queue: bool | None) -> web.Response:
    """Return an id that is unused. The body is not read."""
    if is_queue is None:
        await exchange.described()
    else:
        await exchange.destined(is_queue=is_queue)
    given = exchange.request.rel_url.raw_query_string
    where = _unused(exchange, is_queue=is_queue) + (f"?{given}" if given else "")
    return linked(307, [Link("create-next", where)], [("Location", where)])


def _created(following: str, item: ItemId) -> web.Response:
    name = ("Message-Id", items.encoded(item))
    return linked(201, [Link("create-next", following)], [name])


def _unused(exchange: Exchange, *, is_queue: bool | None) -> str:
    """Return the URL to which a message can be posted under an unused id."""
    place = _place(exchange, is_queue=is_queue)
    return exchange.url(*place, "create", secrets.token_hex(16))


def _place(exchange: Exchange, *, is_queue: bool | None) -> tuple[str, str]:
    if is_queue is None:
        return "nodes", exchange.node
    return exchange.destination(is_queue=is_queue)


def wished(exchange: Exchange, draft: Draft) -> Draft:
    """Return the item with the properties in the query.

    Raises:
        ProblemError: a value of the query cannot be read.

    """
    query = exchange.request.query
    if query.get("durable", "true").lower() not in {"true", "false"}:
        raise bad_request("durable is true or false")
    priority, ttl = _number(query.get("priority")), _number(query.get("ttl"))
    expiration = _number(query.get("expiration"))
    if priority in PRIORITIES:
        draft = replace(draft, priority=priority)
    if ttl:
        draft = replace(draft, ttl=_span(ttl, "ttl"))
    if expiration:
        left = expiration - exchange.face.broker.now()
        draft = replace(draft, ttl=Millis(max(0, left)))
    return draft


def _span(number: int, name: str) -> Millis:
    if number < 0:
        raise bad_request(f"{name} is not negative")
    return Millis(number)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise bad_request("durable, ttl, expiration and priority are numbers, or true and false")
    return int(text)


queue, topic, node = (partial(create_message, is_queue=kind) for kind in (True, False, None))
queue_with_id, topic_with_id = (partial(create_with_id, is_queue=kind) for kind in (True, False))


# Links of the profile: each is a header `msg-…` and a field `Link`. A template is not a URL, so it is only a header.


def fields_of(links: Iterable[Link]) -> list[tuple[str, str]]:
    """Return the headers of these links."""
    return [row for link in links for row in _fields(link)]


def _fields(link: Link) -> list[tuple[str, str]]:
    name = f"msg-{link.rel}"
    if "{" in link.url:
        return [(name, link.url)]
    return [(name, link.url), ("Link", f'{link}; title="{name}"')]


def linked(
    status: int,
    links: Iterable[Link],
    headers: Iterable[tuple[str, str]] = (),
    *,
    body: bytes = b"",
    kind: str | None = None,
) -> web.Response:
    """Return an answer with these links."""
    return answer(status, [*headers, *fields_of(links)], body=body, kind=kind)
