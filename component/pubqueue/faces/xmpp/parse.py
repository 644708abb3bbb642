"""From stanzas to requests: one table keyed by IQ type, child and grandchild.

A parser checks form and completeness only; what is allowed is for the rules to say. It returns a
request of the core, or the stanza error for a request that cannot be understood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from slixmpp.jid import JID, InvalidJID

from pubqueue.core.manage import (
    Configure,
    Create,
    Delete,
    Describe,
    GetAffiliations,
    ListItems,
    ListNodes,
    Purge,
    SetAffiliations,
)
from pubqueue.core.model import NO_TIME, Affiliation, Draft, ItemId, Jid, Millis, NodeName, seconds
from pubqueue.core.publish import Publish
from pubqueue.core.redrive import Redrive
from pubqueue.core.retrieve import Retrieve
from pubqueue.core.settle import Outcome, Settle, Verb
from pubqueue.core.subscribe import SetOptions, Subscribe, Unsubscribe
from pubqueue.core.touch import Touch
from pubqueue.faces.xmpp import forms, ns
from pubqueue.faces.xmpp.payload import DEEPEST
from pubqueue.faces.xmpp.refusals import (
    INVALID_JID,
    INVALID_PAYLOAD,
    ITEM_REQUIRED,
    JID_REQUIRED,
    NODEID_REQUIRED,
    PAYLOAD_REQUIRED,
    StanzaError,
    bad_request,
    unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.rules import Request
    from pubqueue.core.model import Asker
    from pubqueue.faces.xmpp.stream import Element, Stanza

LONGEST_ID: Final = 1023
"""Bytes of a NodeID or ItemID (XEP-0060 4.6.2: they have to fit into a JID's resource)."""

LONGEST_JID: Final = 3071
"""Characters of a JID at most: three parts of 1023 bytes, and what stands between (RFC 7622 3.1)."""

ITEM_LEVEL: Final = 4


@dataclass(frozen=True, slots=True)
class Iq:
    """An IQ request on its way through: who asks, with what, and how to make new ids."""

    stanza: Stanza
    by: Asker
    new_id: Callable[[], str]

    @property
    def child(self) -> Element:
        """The one child of the IQ."""
        return self.stanza.top.children[0]

    @property
    def verb(self) -> Element:
        """The element that says what is wanted: the first grandchild."""
        return self.child.children[0]

    def cut(self, *path: Element) -> bytes:
        """Return the bytes of the last element named, reached from the child."""
        return self.stanza.cut([self.stanza.top, self.child, *path])


def name_of(text: str | None) -> str | None:
    """Return a NodeID or ItemID, or None if it is none: too long, or with control characters."""
    if not text or len(text.encode()) > LONGEST_ID or not text.isprintable():
        return None
    return text


def jid_of(text: str) -> Jid | None:
    """Return the normalised JID, or None if it is none."""
    return _jid_of(text) if len(text) <= LONGEST_JID else None


@lru_cache(maxsize=4096)
def _jid_of(text: str) -> Jid | None:
    """Do so; kept, for the same ones come again."""
    try:
        jid = JID(text)
    except InvalidJID:
        return None
    return Jid(jid.full) if jid.domain else None


def _node(element: Element) -> NodeName | StanzaError:
    given = element.get("node")
    if given is None:
        return NODEID_REQUIRED
    name = name_of(given)
    return bad_request(text="this is no NodeID") if name is None else NodeName(name)


def _form(iq: Iq, holder: Element, form_type: str) -> forms.Form | StanzaError | None:
    """Read the form in `holder`, if there is one."""
    x = holder.find(ns.tag(ns.DATA, "x"))
    if x is None:
        return None
    try:
        form = forms.read(iq.cut(holder, x))
    except forms.FormError as problem:
        return bad_request(text=str(problem))
    if form.type == "cancel":
        return form
    if form.type != "submit":
        return bad_request(text="a form of type submit is needed")
    if form.form_type not in {None, form_type}:
        return StanzaError("modify", "not-acceptable", text=f"the FORM_TYPE has to be {form_type}")
    return form


# --- publish and settle: the hot ones ------------------------------------------------------------


def publish(iq: Iq) -> Request | StanzaError:
    """XEP-0060 7.1, with our metadata beside it."""
    node = _node(iq.verb)
    if isinstance(node, StanzaError):
        return node
    meta = _meta(iq)
    if isinstance(meta, StanzaError):
        return meta
    drafts: list[Draft] = []
    for element in iq.verb.children:
        draft = _draft(iq, element, meta)
        if isinstance(draft, StanzaError):
            return draft
        drafts.append(draft)
    if not drafts:
        return ITEM_REQUIRED
    if len({draft.id for draft in drafts}) < len(drafts):
        return bad_request(text="an item id comes twice in one request")
    return Publish(iq.by, node, tuple(drafts))


@dataclass(frozen=True, slots=True)
class _Meta:
    """What a publisher wants of the items of one request beside their payload."""

    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None


def _meta(iq: Iq) -> _Meta | StanzaError:
    """Read what stands beside `<publish/>`; what is not understood is never passed over."""
    found = _Meta()
    for beside in iq.child.children[1:]:
        if beside.tag == ns.tag(ns.PUBSUB, "publish-options"):
            return unsupported("publish-options")
        if beside.tag != ns.tag(ns.OURS, "meta"):
            return bad_request(text="beside publish stands something unknown")
        try:
            found = _Meta(
                priority=_whole(beside.get("priority")),
                delay=seconds(_span(beside.get("delay")) or 0),
                ttl=None if (ttl := _span(beside.get("ttl"))) is None else seconds(ttl),
            )
        except ValueError as problem:
            return bad_request(text=f"meta: {problem}")
    return found


def _whole(text: str | None) -> int:
    number = int(text or "0")
    if abs(number) > 1_000_000:  # noqa: PLR2004  # wide enough for anybody, and a safe integer
        raise ValueError("a priority goes from -1000000 to 1000000")
    return number


def _span(text: str | None) -> float | None:
    if text is None:
        return None
    span = float(text)
    if not 0 <= span <= 3_162_240_000:  # noqa: PLR2004  # a hundred years; refuses NaN as well
        raise ValueError("a span is a number of seconds, up to a hundred years")
    return span


def _draft(iq: Iq, element: Element, meta: _Meta) -> Draft | StanzaError:
    if element.tag != ns.tag(ns.PUBSUB, "item"):
        return bad_request(text="in publish stands something else than items")
    given = element.get("id")
    item = iq.new_id() if given is None else name_of(given)
    if item is None:
        return bad_request(text="this is no ItemID")
    if not element.children:
        return INVALID_PAYLOAD if element.text.strip() else PAYLOAD_REQUIRED
    if len(element.children) > 1 or element.text.strip():
        return INVALID_PAYLOAD
    if iq.stanza.depth - ITEM_LEVEL > DEEPEST:
        return bad_request("invalid-payload", f"elements nest deeper than {DEEPEST}")
    payload = iq.cut(iq.verb, element, element.children[0])
    return Draft(ItemId(item), payload, meta.priority, meta.delay, meta.ttl)


def _ids(verb: Element, *item_tags: str) -> tuple[ItemId, ...]:
    """Return the ids of the items named, each once; none if anything else is named."""
    ids: dict[ItemId, None] = {}
    for element in verb.children:
        item = element.get("id")
        if element.tag not in item_tags or not item:
            return ()
        ids[ItemId(item)] = None
    return tuple(ids)


def _settle(iq: Iq, verb: Verb, *item_tags: str) -> Settle | StanzaError:
    node = _node(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = _ids(iq.verb, *item_tags)
    if not ids:
        return ITEM_REQUIRED
    request = Settle(iq.by, node, ids, verb, iq.verb.get("notify") in {"1", "true"})
    return _with_words(iq, request) if len(iq.child.children) > 1 else request


def _with_words(iq: Iq, request: Settle) -> Settle | StanzaError:
    """Read what stands beside a retract or unlock: our lock token, our outcome."""
    for beside in iq.child.children[1:]:
        try:
            if beside.tag == ns.tag(ns.OURS, "lock"):
                request = replace(request, token=int(beside.get("token") or ""))
            elif beside.tag == ns.tag(ns.OURS, "outcome") and request.verb is Verb.UNLOCK:
                delay = _span(beside.get("delay"))
                request = replace(
                    request,
                    outcome=Outcome(beside.get("type") or Outcome.RELEASE.value),
                    delay=None if delay is None else seconds(delay),
                    reason=(beside.get("reason") or "")[:LONGEST_ID],
                )
            else:
                return bad_request(text="beside this request stands something unknown")
        except ValueError as problem:
            return bad_request(text=str(problem))
    return request


def retract(iq: Iq) -> Request | StanzaError:
    """XEP-0060 7.2 and XEP-0254 2.3."""
    return _settle(iq, Verb.RETRACT, ns.tag(ns.PUBSUB, "item"))


def retract_from_queue(iq: Iq) -> Request | StanzaError:
    """XEP-0254 example 6: with `get`, which means a change on queues alone (row 1)."""
    request = retract(iq)
    return replace(request, queue_only=True) if isinstance(request, Settle) else request


def unlock(iq: Iq) -> Request | StanzaError:
    """XEP-0254 2.4; the item may be written in either namespace (row 6)."""
    return _settle(iq, Verb.UNLOCK, ns.tag(ns.QUEUEING, "item"), ns.tag(ns.PUBSUB, "item"))


def touch(iq: Iq) -> Request | StanzaError:
    """Extend locks; an addition of ours."""
    node = _node(iq.child)
    ids = _ids(iq.child, ns.tag(ns.OURS, "item"))
    if isinstance(node, StanzaError):
        return node
    if not ids:
        return ITEM_REQUIRED
    try:
        span = _span(iq.child.get("seconds"))
    except ValueError as problem:
        return bad_request(text=str(problem))
    return Touch(iq.by, node, ids, None if span is None else seconds(span))


def redrive(iq: Iq) -> Request | StanzaError:
    """Revive dead items; an addition of ours."""
    node = _node(iq.child)
    if isinstance(node, StanzaError):
        return node
    ids = _ids(iq.child, ns.tag(ns.OURS, "item")) if iq.child.children else None
    if ids == ():
        return ITEM_REQUIRED
    given = iq.child.get("to")
    to = None if given is None else name_of(given)
    if given is not None and to is None:
        return bad_request(text="to is no NodeID")
    return Redrive(iq.by, node, ids, None if to is None else NodeName(to))


def items(iq: Iq) -> Request | StanzaError:
    """XEP-0060 6.5, with the pages of XEP-0059 that go forward."""
    node = _node(iq.verb)
    if isinstance(node, StanzaError):
        return node
    ids = _ids(iq.verb, ns.tag(ns.PUBSUB, "item"))
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


# --- subscriptions -------------------------------------------------------------------------------


def _jid(element: Element) -> Jid | StanzaError:
    given = element.get("jid")
    if given is None:
        return JID_REQUIRED
    return jid_of(given) or INVALID_JID


def _target(element: Element) -> tuple[NodeName, Jid] | StanzaError:
    """Return the node and the JID that nearly every subscription request names."""
    jid = _jid(element)
    if isinstance(jid, StanzaError):
        return jid
    node = _node(element)
    if isinstance(node, StanzaError):
        return node
    return node, jid


def subscribe(iq: Iq) -> Request | StanzaError:
    """XEP-0060 6.1, with the options of XEP-0254 2.1 beside it."""
    target = _target(iq.verb)
    if isinstance(target, StanzaError):
        return target
    node, jid = target
    fields = None
    for beside in iq.child.children[1:]:
        if beside.tag != ns.tag(ns.PUBSUB, "options"):
            return bad_request(text="beside subscribe stands something unknown")
        same = _same_target(beside, node, jid)
        form = _options_form(iq, beside)
        if not same or isinstance(form, StanzaError):
            return form if isinstance(form, StanzaError) else _OTHER_TARGET
        fields = form
    return Subscribe(iq.by, node, jid, iq.new_id(), fields)


_OTHER_TARGET: Final = bad_request(text="options name another node or jid than subscribe")


def _same_target(options: Element, node: NodeName, jid: Jid) -> bool:
    """Say whether options beside subscribe repeat its node and jid, or leave them out (row 8)."""
    given = options.get("jid")
    return options.get("node") in {None, node} and (given is None or jid_of(given) == jid)


def _options_form(iq: Iq, holder: Element) -> dict[str, list[str]] | StanzaError | None:
    form = _form(iq, holder, ns.SUBSCRIBE_OPTIONS)
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
        return bad_request("invalid-options", "a submitted form is needed")
    if isinstance(form, StanzaError):
        return form
    return SetOptions(iq.by, *target, iq.verb.get("subid"), form)


# --- nodes ---------------------------------------------------------------------------------------


def create(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.1; without a NodeID the service makes one (instant nodes)."""
    node = NodeName(iq.new_id()) if iq.verb.get("node") is None else _node(iq.verb)
    if isinstance(node, StanzaError):
        return node
    fields: dict[str, list[str]] = {}
    for beside in iq.child.children[1:]:
        if beside.tag != ns.tag(ns.PUBSUB, "configure") or beside.get("node") is not None:
            return bad_request(text="beside create stands only configure, without a node")
        form = _form(iq, beside, ns.NODE_CONFIG)
        if isinstance(form, StanzaError):
            return form
        if form is not None and form.type != "cancel":
            fields = form.fields
    return Create(iq.by, node, fields)


def get_configuration(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.2.1."""
    node = _node(iq.verb)
    return node if isinstance(node, StanzaError) else Describe(iq.by, node, manage=True)


def set_configuration(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.2.4; a cancelled form changes nothing, but only owners may say even that."""
    node = _node(iq.verb)
    if isinstance(node, StanzaError):
        return node
    form = _form(iq, iq.verb, ns.NODE_CONFIG)
    if form is None:
        return bad_request(text="a form is needed")
    if isinstance(form, StanzaError):
        return form
    return Configure(iq.by, node, {} if form.type == "cancel" else form.fields)


def delete(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.4; a redirect cannot be kept, so it is refused rather than forgotten."""
    node = _node(iq.verb)
    if isinstance(node, StanzaError):
        return node
    if iq.verb.children:
        return StanzaError("cancel", "feature-not-implemented", text="delete without a redirect")
    return Delete(iq.by, node)


def purge(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.5."""
    node = _node(iq.verb)
    return node if isinstance(node, StanzaError) else Purge(iq.by, node)


def get_affiliations(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.9.1."""
    node = _node(iq.verb)
    return node if isinstance(node, StanzaError) else GetAffiliations(iq.by, node)


def set_affiliations(iq: Iq) -> Request | StanzaError:
    """XEP-0060 8.9.2."""
    node = _node(iq.verb)
    if isinstance(node, StanzaError):
        return node
    entries: list[tuple[Jid, Affiliation]] = []
    for element in iq.verb.children:
        jid, word = jid_of(element.get("jid") or ""), element.get("affiliation")
        if element.tag != ns.tag(ns.OWNER, "affiliation") or jid is None:
            return bad_request(text="an affiliation needs a jid")
        if word not in {affiliation.value for affiliation in Affiliation}:
            return bad_request(text="this is no affiliation")
        entries.append((jid, Affiliation(word)))
    return SetAffiliations(iq.by, node, tuple(entries))


# --- discovery -----------------------------------------------------------------------------------


def disco_info(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.3: a node's info (the service's own needs no request)."""
    node = name_of(iq.child.get("node"))
    if node is None:
        return StanzaError("cancel", "item-not-found")
    return Describe(iq.by, NodeName(node), manage=False)


def disco_items(iq: Iq) -> Request | StanzaError:
    """XEP-0060 5.2 and 5.5."""
    given = iq.child.get("node")
    if given is None:
        return ListNodes(iq.by)
    node = name_of(given)
    if node is None:
        return StanzaError("cancel", "item-not-found")
    return ListItems(iq.by, NodeName(node))


def _cannot(feature: str) -> Callable[[Iq], Request | StanzaError]:
    return lambda _iq: unsupported(feature)


# fmt: off
_P, _O, _Q = ns.PUBSUB, ns.OWNER, ns.QUEUEING

VERBS: Final[dict[tuple[str, str, str], Callable[[Iq], Request | StanzaError]]] = {
    ("set", _P, f"{_P} publish"):       publish,
    ("set", _P, f"{_P} retract"):       retract,
    ("get", _P, f"{_P} retract"):       retract_from_queue,  # as example 6 of XEP-0254 (row 1)
    ("set", _P, f"{_Q} unlock"):        unlock,
    ("get", _P, f"{_Q} unlock"):        unlock,    # as examples 10-15 print it
    ("set", _P, f"{_P} subscribe"):     subscribe,
    ("set", _P, f"{_P} unsubscribe"):   unsubscribe,
    ("get", _P, f"{_P} options"):       get_options,
    ("set", _P, f"{_P} options"):       set_options,
    ("set", _P, f"{_P} create"):        create,
    ("get", _P, f"{_P} default"):       _cannot("retrieve-default-sub"),
    ("get", _P, f"{_P} items"):         items,
    ("get", _P, f"{_P} subscriptions"): _cannot("retrieve-subscriptions"),
    ("get", _P, f"{_P} affiliations"):  _cannot("retrieve-affiliations"),
    ("get", _O, f"{_O} configure"):     get_configuration,
    ("set", _O, f"{_O} configure"):     set_configuration,
    ("get", _O, f"{_O} default"):       _cannot("retrieve-default"),
    ("set", _O, f"{_O} delete"):        delete,
    ("set", _O, f"{_O} purge"):         purge,
    ("get", _O, f"{_O} affiliations"):  get_affiliations,
    ("set", _O, f"{_O} affiliations"):  set_affiliations,
    ("get", _O, f"{_O} subscriptions"): _cannot("manage-subscriptions"),
    ("set", _O, f"{_O} subscriptions"): _cannot("manage-subscriptions"),
}
# fmt: on

ACCOMPANIED: Final = frozenset({publish, subscribe, create, retract, unlock, items})
"""What may stand with something beside it; each of them judges what that is."""

_UNKNOWN: Final = bad_request(text="this is no request of XEP-0060 or XEP-0254")


def parse(iq: Iq, kind: str, namespace: str) -> Request | StanzaError:
    """Read a pubsub request of either namespace."""
    if not iq.child.children:
        return _UNKNOWN
    parser = VERBS.get((kind, namespace, iq.verb.tag))
    if parser is None:
        return _UNKNOWN
    if len(iq.child.children) > 1 and parser not in ACCOMPANIED:
        return bad_request(text="beside this request stands another")
    return parser(iq)
