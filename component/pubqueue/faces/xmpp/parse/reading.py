"""Reads requests that read: items, the event log, nodes, discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.parse.iq import Iq, form_of, ids_of, node_of
from pubqueue.faces.xmpp.render import disco
from pubqueue.faces.xmpp.xml.forms import page_among, page_beside
from pubqueue.faces.xmpp.xml.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml.stanza import PAYLOADS
from pubqueue.model.entities import NodeName, State
from pubqueue.rules.discovery import (
    Describe,
    ListItems,
    ListMyAffiliations,
    ListMySubscriptions,
    ListNodes,
    Types,
)
from pubqueue.rules.read import ReadEvents, ReadItems, ReadNodes
from pubqueue.rules.retrieve import Order, Retrieve
from pubqueue.rules.validity import is_name
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Request
    from pubqueue.model.replies import Page


# Reads requests for the event log, items and nodes, which are our extensions; all are IQs of type get.

_DIGITS = 18


def _number(element: Element, name: str) -> int | None:
    given = element.get(name)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= _DIGITS):
        raise ValueError(f"{name} has to be a whole number from 0")
    return int(given)


def _size(element: Element) -> int | None:
    size = _number(element, "max")
    if size == 0:
        raise ValueError("max has to be a whole number from 1")
    return size


def events(iq: Iq) -> Request | StanzaError:
    """Read a request for events."""
    node = None if iq.child.get("node") is None else node_of(iq.child)
    if isinstance(node, StanzaError):
        return node
    try:
        after, until = _number(iq.child, "after") or 0, _number(iq.child, "until")
        return ReadEvents(iq.by, node, after, until, _size(iq.child))
    except ValueError as problem:
        return bad_request(text=f"events: {problem}")


def read_items(iq: Iq) -> Request | StanzaError:
    """Read a request for items, with or without payloads."""
    node = node_of(iq.child)
    if isinstance(node, StanzaError):
        return node
    state, payload = iq.child.get("state"), iq.child.get("payload") or "true"
    if state is not None and state not in set(State):
        return bad_request(text=f"items: state is one of {', '.join(State)}")
    if payload not in {"true", "false", "1", "0"}:
        return bad_request(text="items: payload is true or false")
    try:
        return ReadItems(
            *(iq.by, node, _number(iq.child, "after") or 0, _number(iq.child, "until")),
            max=_size(iq.child),
            state=None if state is None else State(state),
            payloads=payload in {"true", "1"},
            room=PAYLOADS,
        )
    except ValueError as problem:
        return bad_request(text=f"items: {problem}")


def nodes(iq: Iq) -> Request | StanzaError:
    """Read a request for nodes."""
    given = iq.child.get("after")
    if given and not is_name(given):
        return bad_request(text="nodes: after is not a valid NodeID")
    try:
        return ReadNodes(iq.by, NodeName(given) if given else None, _size(iq.child))
    except ValueError as problem:
        return bad_request(text=f"nodes: {problem}")


# Reads requests for items (XEP-0060 6.5) in pages, and for discovery (XEP-0060 5).


def retrieve_items(iq: Iq) -> Request | StanzaError:
    """Read a request for items (XEP-0060 6.5), with a page (XEP-0059)."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = ids_of(iq.verb, ns.tag(ns.PUBSUB, "item"))
    if iq.verb.children and not ids:
        return bad_request(text="items may contain only item elements with an id")
    order = _order(iq)
    if isinstance(order, StanzaError):
        return order
    page = page_beside([one for one in iq.child.children[1:] if one.tag != ORDER])
    if isinstance(page, StanzaError):
        return page
    newest = iq.verb.get("max_items")
    try:
        wanted = None if newest is None else _count(newest)
    except ValueError as problem:
        return bad_request(text=f"max_items: {problem}")
    subid = iq.verb.get("subid")
    return Retrieve(iq.by, node, ids, wanted, page, PAYLOADS, order, subid)


ORDER: Final = ns.tag(ns.ORDER_BY, "order")


def _order(iq: Iq) -> Order | StanzaError | None:
    """Read the order (XEP-0413). The first of several decides, because no two items are equal in it."""
    given = [beside for beside in iq.child.children[1:] if beside.tag == ORDER]
    if any(one.get("by") not in {"creation", "modification"} for one in given):
        return StanzaError("cancel", "feature-not-implemented", text="by creation or modification")
    if not given:
        return None
    first = given[0]
    return Order(first.get("by") == "creation", first.get("desc") in {"true", "1"})


_FILTERS: Final = ("included-types", "excluded-types")

MAX_TYPES: Final = 20
"""Maximum types in a filter; each costs one query."""


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:10]) < 1:
        raise ValueError("a whole number from 1")
    return int(text[:10])


def disco_info(iq: Iq) -> Request | StanzaError | bytes:
    """Read a disco#info request for a node (XEP-0060 5.3); for the service, return the answer."""
    given = iq.child.get("node")
    if given is None or given.startswith(f"{disco.CAPABILITIES_NODE}#"):
        features = iq.features(iq.by)
        if given in {None, disco.node_of(features)}:
            return disco.service_info(features, given).encode()
    return Describe(iq.by, NodeName(given or ""), manage=False)


def disco_items(iq: Iq) -> Request | StanzaError:
    """Read a disco#items request (XEP-0060 5.2, 5.5), optionally with a filter of types (XEP-0462)."""
    page = page_among(iq.child.children)
    if isinstance(page, StanzaError):
        return page
    given = iq.child.get("node")
    if given is not None:
        return ListItems(iq.by, NodeName(given), page)
    types = _types(iq)
    return types if isinstance(types, StanzaError) else ListNodes(iq.by, page, types)


def _types(iq: Iq) -> Types | StanzaError | None:
    """Read a filter by types of nodes (XEP-0462)."""
    asked = iq.child.find(ns.tag(ns.FILTER, "filter"))
    if asked is None:
        return None
    form = form_of(iq, asked, ns.FILTER)
    if form is None or isinstance(form, StanzaError):
        return bad_request(text="a filter must be a submitted form")
    if len(form.fields) != 1 or form.fields.keys() - set(_FILTERS):
        return bad_request(text=f"a filter has {' or '.join(_FILTERS)}, not both")
    ((name, given),) = form.fields.items()
    if len(given) > MAX_TYPES:
        return bad_request(text=f"a filter names at most {MAX_TYPES} types")
    kinds = tuple(dict.fromkeys(given))
    return Types(kinds) if name == _FILTERS[0] else Types(excluded=kinds)


def my_affiliations(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.7."""
    asked = _asked(iq)
    return asked if isinstance(asked, StanzaError) else ListMyAffiliations(iq.by, *asked)


def my_subscriptions(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.6."""
    asked = _asked(iq)
    return asked if isinstance(asked, StanzaError) else ListMySubscriptions(iq.by, *asked)


def _asked(iq: Iq) -> tuple[NodeName | None, Page | None] | StanzaError:
    """Read the node, if there is one, and the page."""
    node = None if iq.verb.get("node") is None else node_of(iq.verb)
    page = page_beside(iq.child.children[1:])
    if isinstance(node, StanzaError):
        return node
    return page if isinstance(page, StanzaError) else (node, page)
