"""Queues and topics: their links, and how they are created and deleted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from lxml import etree

from pubqueue.faces.rest.batches.atom import ATOM, parsed
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.hornetq.links import linked
from pubqueue.faces.rest.http.links import Link
from pubqueue.faces.rest.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.openapi import served
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NodeName
from pubqueue.rules.nodes import Create

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange

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
    described = exchange.link("service-desc", served.PATH, kind=served.MEDIA_TYPE)
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
    settings = exchange.terms.settings({"x-queueing#enabled": ["1" if is_queue else "0"]})
    reply = await exchange.face.submit(exchange.by, Create(exchange.by, NodeName(name), settings))
    if isinstance(reply, Refused) and reply.refusal is Refusal.NODE_EXISTS:
        raise ProblemError(412, "precondition-failed", "the destination exists")
    exchange.granted(reply)
    return answer(201, [("Location", exchange.url(f"{tag}s", name))])


get_queue, get_topic = partial(get, is_queue=True), partial(get, is_queue=False)
create_queue, create_topic = partial(create, is_queue=True), partial(create, is_queue=False)
