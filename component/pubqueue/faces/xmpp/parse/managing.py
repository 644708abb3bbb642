"""Reads requests about nodes: create, configure, delete, purge, affiliations (XEP-0060 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp import settings
from pubqueue.faces.xmpp.parse.iq import Iq, form_of, jid_of, node_of
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml.result_sets import page_beside
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodes import Configure, Create, Delete, GetAffiliations, Purge, SetAffiliations
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.engine.table import Request


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
    return Create(iq.by, node, settings.wanted(fields))


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
    return Configure(iq.by, node, settings.wanted(fields))


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
