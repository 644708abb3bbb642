"""Items and names to read: retrieval (XEP-0060 6.5) in pages, discovery (XEP-0060 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.core.model import ItemId, NodeName
from pubqueue.core.nodes.account import ListMyAffiliations, ListMySubscriptions
from pubqueue.core.nodes.manage import Describe, ListItems, ListNodes
from pubqueue.core.reading.retrieve import Retrieve
from pubqueue.faces.xmpp import disco, ns
from pubqueue.faces.xmpp.parse.iq import Iq, ids_of, node_of
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request

if TYPE_CHECKING:
    from pubqueue.app.rules import Request


def items(iq: Iq) -> Request | StanzaError:
    """XEP-0060 6.5, with the pages of XEP-0059 that go forward."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.verb, ns.tag(ns.PUBSUB, "item"))
    if iq.verb.children and not ids:
        return bad_request(text="in items stand only items with an id")
    page = _page(iq)
    if isinstance(page, StanzaError):
        return page
    after, size = page
    newest = iq.verb.get("max_items")
    try:
        wanted = None if newest is None else _count(newest)
    except ValueError as problem:
        return bad_request(text=f"max_items: {problem}")
    return Retrieve(iq.by, node, ids, wanted, after, size)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:10]) < 1:
        raise ValueError("a whole number from 1")
    return int(text[:10])


def _page(iq: Iq) -> tuple[ItemId | None, int | None] | StanzaError:
    """Read the page that is asked for (XEP-0059 2.2); only forward pages are served."""
    after: ItemId | None = None
    size: int | None = None
    for beside in iq.child.children[1:]:
        if beside.tag != ns.tag(ns.RSM, "set"):
            return bad_request(text="beside items stands something unknown")
        for word in beside.children:
            if word.tag == ns.tag(ns.RSM, "after"):
                after = ItemId(word.text)
            elif word.tag == ns.tag(ns.RSM, "max") and word.text.isascii() and word.text.isdigit():
                size = int(word.text[:10])
            elif word.tag == ns.tag(ns.RSM, "max"):
                return bad_request(text="max: a whole number")
            else:
                return StanzaError("cancel", "feature-not-implemented", text="pages go forward")
    return after, size


def disco_info(iq: Iq) -> Request | StanzaError | bytes:
    """XEP-0060 5.3: a node's info; the service's own needs no request."""
    given = iq.child.get("node")
    if given is None:
        return disco.service_info().encode()
    return Describe(iq.by, NodeName(given), manage=False)


def disco_items(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.2 and 5.5."""
    given = iq.child.get("node")
    if given is None:
        return ListNodes(iq.by)
    return ListItems(iq.by, NodeName(given))


def my_affiliations(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.7."""
    node = _one_or_all(iq)
    return node if isinstance(node, StanzaError) else ListMyAffiliations(iq.by, node)


def my_subscriptions(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.6."""
    node = _one_or_all(iq)
    return node if isinstance(node, StanzaError) else ListMySubscriptions(iq.by, node)


def _one_or_all(iq: Iq) -> NodeName | StanzaError | None:
    return None if iq.verb.get("node") is None else node_of(iq.verb)
