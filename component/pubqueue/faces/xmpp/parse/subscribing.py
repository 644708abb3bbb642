"""Reads requests about subscriptions and their options (XEP-0060 6.1-6.3, XEP-0254 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp import settings
from pubqueue.faces.xmpp.parse.iq import Iq, form_of, jid_of, node_of
from pubqueue.faces.xmpp.refusals import INVALID_JID, JID_REQUIRED, StanzaError, bad_request
from pubqueue.rules.subscribe import GetDefaultOptions, SetOptions, Subscribe, Unsubscribe
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.entities import Jid, NodeName


def _jid(element: Element) -> Jid | StanzaError:
    given = element.get("jid")
    if given is None:
        return JID_REQUIRED
    return jid_of(given) or INVALID_JID


def _target(element: Element) -> tuple[NodeName, Jid] | StanzaError:
    """Return the node and the JID of a subscription request."""
    jid = _jid(element)
    if isinstance(jid, StanzaError):
        return jid
    node = node_of(element)
    if isinstance(node, StanzaError):
        return node
    return node, jid


def subscribe(iq: Iq) -> Request | StanzaError:
    """Read a subscribe (XEP-0060 6.1), with the options of XEP-0254 2.1 beside it."""
    target = _target(iq.verb)
    if isinstance(target, StanzaError):
        return target
    node, jid = target
    fields = None
    for beside in iq.child.children[1:]:
        if beside.tag != ns.tag(ns.PUBSUB, "options"):
            return bad_request(text="the subscribe request contains an unknown element")
        same = _same_target(beside, node, jid)
        form = _options_form(iq, beside)
        if not same or isinstance(form, StanzaError):
            return form if isinstance(form, StanzaError) else _OTHER_TARGET
        fields = form
    return Subscribe(iq.by, node, jid, iq.new_id(), settings.options(fields))


_OTHER_TARGET: Final = bad_request(text="options and subscribe name different nodes or JIDs")


def _same_target(options: Element, node: NodeName, jid: Jid) -> bool:
    """Return whether options beside a subscribe repeat or omit its node and jid (row 8)."""
    given = options.get("jid")
    return options.get("node") in {None, node} and (given is None or jid_of(given) == jid)


def _options_form(iq: Iq, holder: Element) -> dict[str, list[str]] | StanzaError | None:
    form = form_of(iq, holder, ns.SUBSCRIBE_OPTIONS)
    if isinstance(form, StanzaError):  # XEP-0060 6.3.6.2
        return bad_request("invalid-options", form.text)
    return None if form is None or form.type == "cancel" else form.fields


def unsubscribe(iq: Iq) -> Request | StanzaError:
    """XEP-0060 6.2."""
    target = _target(iq.verb)
    if isinstance(target, StanzaError):
        return target
    return Unsubscribe(iq.by, *target, iq.verb.get("subid"))


def get_options(iq: Iq) -> Request | StanzaError:
    """XEP-0060 6.3.2."""
    target = _target(iq.verb)
    if isinstance(target, StanzaError):
        return target
    return SetOptions(iq.by, *target, iq.verb.get("subid"))


def set_options(iq: Iq) -> Request | StanzaError:
    """XEP-0060 6.3.5."""
    target = _target(iq.verb)
    if isinstance(target, StanzaError):
        return target
    form = _options_form(iq, iq.verb)
    if form is None:
        return bad_request("invalid-options", "a submitted form is required")
    if isinstance(form, StanzaError):
        return form
    return SetOptions(iq.by, *target, iq.verb.get("subid"), settings.options(form))


def get_default_options(iq: Iq) -> Request | StanzaError:
    """Read a request for the default options of a node or of the service (XEP-0060 6.4.1)."""
    if iq.verb.get("node") is None:
        return GetDefaultOptions(iq.by)
    node = node_of(iq.verb)
    return node if isinstance(node, StanzaError) else GetDefaultOptions(iq.by, node)
