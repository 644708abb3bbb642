"""Reads what owners do with subscriptions: approve them (XEP-0060 8.6), list and change them (8.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.parse.iq import Iq, jid_of, node_of
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml import forms
from pubqueue.faces.xmpp.xml.result_sets import page_beside
from pubqueue.model.entities import NodeName
from pubqueue.rules.nodeconfig import BadValueError, read_boolean
from pubqueue.rules.subscribers import Answer, GetSubscriptions, SetSubscriptions, Wish
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.xml.stanza import Stanza
    from pubqueue.model.entities import Principal

STATES: Final = frozenset({"none", "pending", "subscribed", "unconfigured"})
"""The states of a subscription (XEP-0060 4.2)."""


def answer(stanza: Stanza, by: Principal) -> Answer | None:
    """Read an owner's answer; None if the message has none, or if it changes nothing."""
    x = stanza.top.find(ns.tag(ns.DATA, "x"))
    if x is None:
        return None
    try:
        form = forms.read(stanza.cut([stanza.top, x]))
        allow = read_boolean((form.fields.get("pubsub#allow") or [""])[0])
    except (forms.FormError, BadValueError):
        return None
    if form.type != "submit" or form.form_type != ns.SUBSCRIBE_AUTHORIZATION:
        return None
    node, name, subid = (_only(form, var) for var in ("node", "subscriber_jid", "subid"))
    jid = None if name is None else jid_of(name)
    return None if node is None or jid is None else Answer(by, NodeName(node), jid, allow, subid)


def _only(form: forms.Form, name: str) -> str | None:
    values = form.fields.get(f"pubsub#{name}", [])
    return values[0] if len(values) == 1 else None


def get_subscriptions(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.8.1."""
    node, page = node_of(iq.verb), page_beside(iq.child.children[1:])
    if isinstance(node, StanzaError):
        return node
    return page if isinstance(page, StanzaError) else GetSubscriptions(iq.by, node, page)


def set_subscriptions(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.8.2."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    wishes: list[Wish] = []
    for element in iq.verb.children:
        jid, state = jid_of(element.get("jid") or ""), element.get("subscription")
        if element.tag != ns.tag(ns.OWNER, "subscription") or jid is None:
            return bad_request(text="a subscription needs a jid")
        if state is not None and state not in STATES:
            return bad_request(text="this is not a subscription state")
        wishes.append(Wish(jid, state, element.get("subid"), iq.new_id()))
    return SetSubscriptions(iq.by, node, tuple(wishes))
