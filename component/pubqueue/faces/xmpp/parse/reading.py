"""Reads requests for the event log, items and nodes, which are our extensions; all are IQs of type get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.xmpp.parse.iq import Iq, node_of
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml.size_limits import PAYLOADS
from pubqueue.model.entities import NodeName, State
from pubqueue.rules.read import ReadEvents, ReadItems, ReadNodes
from pubqueue.rules.validity import is_name

if TYPE_CHECKING:
    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.xml.stanza import Element

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


def items(iq: Iq) -> Request | StanzaError:
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
