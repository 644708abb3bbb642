"""Items and names to read: retrieval (XEP-0060 6.5) in pages, discovery (XEP-0060 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.core.model import NodeName
from pubqueue.core.nodes.account import ListMyAffiliations, ListMySubscriptions
from pubqueue.core.nodes.manage import Describe, ListItems, ListNodes
from pubqueue.core.reading.retrieve import Retrieve
from pubqueue.faces.xmpp import disco, ns
from pubqueue.faces.xmpp.parse.iq import Iq, ids_of, node_of
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.result_sets import page_among, page_beside
from pubqueue.faces.xmpp.room import PAYLOADS

if TYPE_CHECKING:
    from pubqueue.app.rules import Request
    from pubqueue.core.reading.listing import Page


def items(iq: Iq) -> Request | StanzaError:
    """XEP-0060 6.5, with the pages of XEP-0059 that go forward."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.verb, ns.tag(ns.PUBSUB, "item"))
    if iq.verb.children and not ids:
        return bad_request(text="in items stand only items with an id")
    page = page_beside(iq.child.children[1:], backward=True)
    if isinstance(page, StanzaError):
        return page
    newest = iq.verb.get("max_items")
    try:
        wanted = None if newest is None else _count(newest)
    except ValueError as problem:
        return bad_request(text=f"max_items: {problem}")
    return Retrieve(iq.by, node, ids, wanted, page, PAYLOADS)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:10]) < 1:
        raise ValueError("a whole number from 1")
    return int(text[:10])


def disco_info(iq: Iq) -> Request | StanzaError | bytes:
    """XEP-0060 5.3: a node's info; the service's own needs no request."""
    given = iq.child.get("node")
    if given is None:
        return disco.service_info(rosters=iq.by.rosters).encode()
    return Describe(iq.by, NodeName(given), manage=False)


def disco_items(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.2 and 5.5."""
    page = page_among(iq.child.children)
    if isinstance(page, StanzaError):
        return page
    given = iq.child.get("node")
    if given is None:
        return ListNodes(iq.by, page)
    return ListItems(iq.by, NodeName(given), page)


def my_affiliations(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.7."""
    asked = _asked(iq)
    return asked if isinstance(asked, StanzaError) else ListMyAffiliations(iq.by, *asked)


def my_subscriptions(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.6."""
    asked = _asked(iq)
    return asked if isinstance(asked, StanzaError) else ListMySubscriptions(iq.by, *asked)


def _asked(iq: Iq) -> tuple[NodeName | None, Page | None] | StanzaError:
    """Read which node is meant, if it is one, and which page."""
    node = None if iq.verb.get("node") is None else node_of(iq.verb)
    page = page_beside(iq.child.children[1:])
    if isinstance(node, StanzaError):
        return node
    return page if isinstance(page, StanzaError) else (node, page)
