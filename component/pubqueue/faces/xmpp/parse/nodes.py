"""Reads requests about nodes and their subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.parse.iq import Iq, form_of, jid_of, node_of
from pubqueue.faces.xmpp.xml import forms
from pubqueue.faces.xmpp.xml.fields import options, wanted
from pubqueue.faces.xmpp.xml.forms import page_beside
from pubqueue.faces.xmpp.xml.refusals import INVALID_JID, JID_REQUIRED, StanzaError, bad_request
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import BadValueError, read_boolean
from pubqueue.rules.nodes import Configure, Create, Delete, GetAffiliations, Purge, SetAffiliations
from pubqueue.rules.subscribe import GetDefaultOptions, SetOptions, Subscribe, Unsubscribe
from pubqueue.rules.subscribers import Answer, GetSubscriptions, SetSubscriptions, Wish
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal


# Reads requests about nodes: create, configure, delete, purge, affiliations (XEP-0060 8).

MAX_URI_LENGTH: Final = 4096
"""Maximum characters of a redirect URI."""


def create(iq: Iq) -> Request | StanzaError:
    """Read a create (XEP-0060 8.1); without a NodeID the service generates one (instant nodes)."""
    node = NodeName(iq.new_id()) if iq.verb.get("node") is None else node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    fields: dict[str, list[str]] = {}
    for beside in iq.child.children[1:]:
        if beside.tag != ns.tag(ns.PUBSUB, "configure") or beside.get("node") is not None:
            return bad_request(text="create may be accompanied only by configure, without a node")
        form = form_of(iq, beside, ns.NODE_CONFIG)
        if isinstance(form, StanzaError):
            return form
        if form is not None and form.type != "cancel":
            fields = form.fields
    return Create(iq.by, node, wanted(fields))


def get_configuration(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.2.1."""
    node = node_of(iq.verb)
    return node if isinstance(node, StanzaError) else Describe(iq.by, node, manage=True)


def set_configuration(iq: Iq) -> Request | StanzaError:
    """Read a node's configuration (XEP-0060 8.2.4). A cancelled form changes nothing, but only owners may send it."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    form = form_of(iq, iq.verb, ns.NODE_CONFIG)
    if form is None:
        return bad_request(text="a form is required")
    if isinstance(form, StanzaError):
        return form
    fields = {} if form.type == "cancel" else form.fields
    return Configure(iq.by, node, wanted(fields))


def delete(iq: Iq) -> Request | StanzaError:
    """Read a delete (XEP-0060 8.4), with the URI of the node's replacement, if there is one."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    if not iq.verb.children:
        return Delete(iq.by, node)
    redirect = iq.verb.children[0]
    uri = redirect.get("uri") or ""
    is_one = redirect.tag == ns.tag(ns.OWNER, "redirect") and len(iq.verb.children) == 1
    if not is_one or not 0 < len(uri) <= MAX_URI_LENGTH:
        return bad_request(text="delete may contain only one redirect with a uri")
    return Delete(iq.by, node, uri)


def purge(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.5."""
    node = node_of(iq.verb)
    return node if isinstance(node, StanzaError) else Purge(iq.by, node)


def get_affiliations(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.9.1."""
    node, page = node_of(iq.verb), page_beside(iq.child.children[1:])
    if isinstance(node, StanzaError):
        return node
    return page if isinstance(page, StanzaError) else GetAffiliations(iq.by, node, page)


def set_affiliations(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.9.2."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    entries: list[tuple[Jid, Affiliation]] = []
    for element in iq.verb.children:
        jid, word = jid_of(element.get("jid") or ""), element.get("affiliation")
        if element.tag != ns.tag(ns.OWNER, "affiliation") or jid is None:
            return bad_request(text="an affiliation needs a jid")
        if word not in {affiliation.value for affiliation in Affiliation}:
            return bad_request(text="this is not an affiliation")
        entries.append((jid, Affiliation(word)))
    return SetAffiliations(iq.by, node, tuple(entries))


# Reads what owners do with subscriptions: approve them (XEP-0060 8.6), list and change them (8.8).

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


# Reads requests about subscriptions and their options (XEP-0060 6.1-6.3, XEP-0254 2.1).


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
        if beside.get("subid") is not None:
            return bad_request(text="a new subscription has no subid yet")
        same = _same_target(beside, node, jid)
        form = _options_form(iq, beside)
        if not same or isinstance(form, StanzaError):
            return form if isinstance(form, StanzaError) else _OTHER_TARGET
        fields = form
    return Subscribe(iq.by, node, jid, iq.new_id(), options(fields), iq.now())


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
    return SetOptions(iq.by, *target, iq.verb.get("subid"), options(form))


def get_default_options(iq: Iq) -> Request | StanzaError:
    """Read a request for the default options of a node or of the service (XEP-0060 6.4.1)."""
    if iq.verb.get("node") is None:
        return GetDefaultOptions(iq.by)
    node = node_of(iq.verb)
    return node if isinstance(node, StanzaError) else GetDefaultOptions(iq.by, node)
