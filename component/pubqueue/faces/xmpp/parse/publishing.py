"""Reads a publish (XEP-0060 7.1), with our metadata and headers (XEP-0131) beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp import settings
from pubqueue.faces.xmpp.parse import committing
from pubqueue.faces.xmpp.parse.iq import Iq, form_of, node_of, span_of
from pubqueue.faces.xmpp.refusals import (
    INVALID_PAYLOAD,
    StanzaError,
    bad_request,
)
from pubqueue.faces.xmpp.xml import headers
from pubqueue.faces.xmpp.xml.payload import DEEPEST
from pubqueue.model.entities import NO_TIME, Draft, Headers, ItemId, Millis
from pubqueue.rules.publication import Publish
from pubqueue.rules.staging import StagePublish
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.rules.nodeconfig import Settings

ITEM_LEVEL: Final = 4

OPTIONS: Final = ns.tag(ns.PUBSUB, "publish-options")

ANSWER: Final = ns.tag(ns.PUBQUEUE, "answer")
"""The attribute of publish and retract that selects the answer.

For a publish, `short`: empty if the items were accepted; `known`: empty if they are new. For a retract, `known`: the items that were
locked to other accounts.
"""


def answer_wanted(iq: Iq) -> str:
    """Return the requested answer; always the default, "", unless the publisher has named all ids."""
    verb = iq.verb
    return (verb.get(ANSWER) or "") if all(item.get("id") for item in verb.children) else ""


def publish(iq: Iq) -> Publish | StagePublish | StanzaError:
    """Read a publish (XEP-0060 7.1), with our metadata and headers beside it, which apply to all items."""
    node = node_of(iq.verb)
    if isinstance(node, StanzaError):
        return node
    meta = _meta(iq)
    if isinstance(meta, StanzaError):
        return meta
    options = _options(iq)
    if isinstance(options, StanzaError):
        return options
    drafts: list[Draft] = []
    for element in iq.verb.children:
        draft = _draft(iq, element, meta)
        if isinstance(draft, StanzaError):
            return draft
        drafts.append(draft)
    request = Publish(iq.by, node, tuple(drafts), options)
    mark = committing.mark_of(iq)
    if mark is None or isinstance(mark, StanzaError):
        return mark or request
    return StagePublish(request, mark)


@dataclass(frozen=True, slots=True)
class _Meta:
    """The metadata of all items of a request."""

    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    headers: Headers = ()
    group: str = ""


def _meta(iq: Iq) -> _Meta | StanzaError:
    """Read the elements beside `<publish/>`. Unknown ones are refused."""
    found = _Meta()
    for beside in iq.child.children[1:]:
        if beside.tag == committing.TAG:
            continue
        read = _BESIDE.get(beside.tag)
        if read is None:
            return bad_request(text="the publish request contains an unknown element")
        more = read(found, beside)
        if isinstance(more, StanzaError):
            return more
        found = more
    return found


def _with_meta(found: _Meta, meta: Element) -> _Meta | StanzaError:
    try:
        return replace(
            found,
            priority=int(meta.get("priority") or "0"),
            delay=span_of(meta.get("delay")) or NO_TIME,
            ttl=span_of(meta.get("ttl")),
            group=_group(meta),
        )
    except ValueError as problem:
        return bad_request(text=f"meta: {problem}")


def _group(meta: Element) -> str:
    group = meta.get("group")
    if group == "":
        raise ValueError("a group must have a name")
    return group or ""


def _with_headers(found: _Meta, element: Element) -> _Meta | StanzaError:
    if found.headers:
        return bad_request(text="headers occurs twice")
    given = headers.read(element)
    return given if isinstance(given, StanzaError) else replace(found, headers=given)


_BESIDE: Final[dict[str, Callable[[_Meta, Element], _Meta | StanzaError]]] = {
    ns.tag(ns.PUBQUEUE, "meta"): _with_meta,
    headers.TAG: _with_headers,
    OPTIONS: lambda found, _options: found,  # read by itself
}


def _options(iq: Iq) -> Settings | StanzaError | None:
    """Read the settings that the node must have (XEP-0060 7.1.5)."""
    given = [beside for beside in iq.child.children[1:] if beside.tag == OPTIONS]
    if not given:
        return None
    form = form_of(iq, given[0], ns.PUBLISH_OPTIONS)
    if isinstance(form, StanzaError):
        return bad_request(text=form.text)
    if len(given) > 1 or form is None or form.type == "cancel":
        return bad_request(text="publish-options must be one submitted form")
    return settings.wanted(form.fields)


def _draft(iq: Iq, element: Element, meta: _Meta) -> Draft | StanzaError:
    """Read an item, and give it the metadata of the request."""
    if element.tag != ns.tag(ns.PUBSUB, "item"):
        return bad_request(text="publish may contain only items")
    given = element.get("id")
    item = iq.new_id() if given is None else given
    if not element.children:
        if element.text.strip():
            return INVALID_PAYLOAD
        return Draft(ItemId(item), b"", *_metadata(meta), "", meta.group)
    if len(element.children) > 1 or element.text.strip():
        return INVALID_PAYLOAD
    if iq.stanza.depth - ITEM_LEVEL > DEEPEST:
        return bad_request("invalid-payload", f"elements nest deeper than {DEEPEST}")
    payload = iq.cut(iq.verb, element, element.children[0])
    space = element.children[0].tag.rpartition(" ")[0]
    return Draft(ItemId(item), payload, *_metadata(meta), space, meta.group)


def _metadata(meta: _Meta) -> tuple[int, Millis, Millis | None, Headers]:
    return meta.priority, meta.delay, meta.ttl, meta.headers
