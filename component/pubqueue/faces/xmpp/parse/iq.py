"""What every parser needs, and what an IQ of Quality of Service carries (urn:xmpp:qos)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pubqueue.faces.xmpp.xml import forms, stanza
from pubqueue.faces.xmpp.xml.refusals import (
    NODEID_REQUIRED,
    StanzaError,
    bad_request,
    unsupported,
)
from pubqueue.model.entities import ItemId, Millis, NodeName, seconds
from pubqueue.model.records import MAX_ID_LENGTH
from pubqueue.rules.validity import NO_SPAN
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
    from pubqueue.model.decision import Refused, Request
    from pubqueue.model.entities import Principal


# What every parser needs: the IQ, and readers for its attributes.

BEYOND_SPANS: Final = 1e12
"""The limit of a span in seconds, below which it fits into whole milliseconds; also excludes infinity and NaN."""


class CommandHandler(Protocol):
    """Where the commands of the face are served."""

    def take(self, iq: Iq) -> Asked | StanzaError | bytes:
        """Read one step, and return what is to be asked for it, or the answer."""


@dataclass(frozen=True, slots=True)
class Iq:
    """An IQ request in process: its sender, its contents, and a source of new ids.

    `features` returns the features of the service for an account, and `now` the time by which it decides; 0: not known.
    """

    stanza: Stanza
    by: Principal
    new_id: Callable[[], str]
    features: Callable[[Principal], tuple[str, ...]] = lambda _by: ()
    command_handler: CommandHandler | None = None
    """Where the commands of the face are served."""
    now: Callable[[], Millis] = lambda: Millis(0)

    @property
    def child(self) -> Element:
        """The one child of the IQ."""
        return self.stanza.top.children[0]

    @property
    def verb(self) -> Element:
        """The element that names the request: the first grandchild."""
        return self.child.children[0]

    def cut(self, *path: Element) -> bytes:
        """Return the bytes of the last element named, reached from the child."""
        return self.stanza.cut([self.stanza.top, self.child, *path])


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose answer depends on more than its reply.

    `write` makes the answer from the reply and the service's name; `refused` is called with a
    refusal, and returns what the error contains in place of the request's child, if anything.
    """

    request: Request
    write: Callable[[Any, str], bytes]
    refused: Callable[[Refused], bytes | None]


jid_of: Final = stanza.jid_of


def node_of(element: Element) -> NodeName | StanzaError:
    """Return the node that the element names; it has to name one. What a name may be, the core knows."""
    given = element.get("node")
    return NODEID_REQUIRED if given is None else NodeName(given)


def form_of(iq: Iq, holder: Element, form_type: str) -> forms.Form | StanzaError | None:
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
        return bad_request(text="a form of type submit is required")
    if form.form_type not in {None, form_type}:
        return StanzaError("modify", "not-acceptable", text=f"the FORM_TYPE has to be {form_type}")
    return form


def ids_of(verb: Element, *item_tags: str) -> tuple[ItemId, ...]:
    """Return the ids of the items named, each once; none if anything else is named."""
    ids: dict[ItemId, None] = {}
    for element in verb.children:
        item = element.get("id")
        if element.tag not in item_tags or not item:
            return ()
        ids[ItemId(item)] = None
    return tuple(ids)


def span_of(text: str | None) -> Millis | None:
    """Return a span, given in seconds, or raise ValueError if it is not a number. The core checks its limits."""
    if text is None:
        return None
    span = float(text)
    if not abs(span) < BEYOND_SPANS:
        raise ValueError(NO_SPAN)
    return Millis(-1) if span < 0 else seconds(span)


# The words of requests: every attribute and element that a request may have. What is not in the table could change what is meant, so
# nothing else is taken (decision 146). Attributes of namespaces that are not here, such as xml:lang, are not about the request.

_SPACES: Final = {
    "p": ns.PUBSUB,
    "o": ns.OWNER,
    "q": ns.QUEUEING,
    "x": ns.PUBQUEUE,
    "d": ns.DATA,
    "r": ns.RSM,
    "b": ns.ORDER_BY,
    "f": ns.FILTER,
    "i": ns.DISCO_INFO,
    "l": ns.DISCO_ITEMS,
    "c": ns.COMMANDS,
}


def full(word: str) -> str:
    """Return the tag or name of an attribute that a word of the table stands for."""
    space, colon, name = word.partition(":")
    return ns.tag(_SPACES[space], name) if colon else word


class Words(NamedTuple):
    """The attributes of an element, and its children; None if its reader knows them."""

    attributes: frozenset[str]
    children: frozenset[str] | None = frozenset()


def _words(attributes: str, children: str | None = "") -> Words:
    inner = None if children is None else frozenset(map(full, children.split()))
    return Words(frozenset(map(full, attributes.split())), inner)


# fmt: off
WORDS: Final = {full(word): listed for word, listed in {
    "p:pubsub":          _words("", None),
    "p:create":          _words("node type"),
    "p:configure":       _words("node type", "d:x"),
    "p:publish":         _words("node x:answer", None),
    "p:publish-options": _words("", "d:x"),
    "p:item":            _words("id publisher", None),  # the service itself says who the publisher is (XEP-0060 7.1.2.3)
    "p:retract":         _words("node notify x:answer", None),
    "q:unlock":          _words("node", None),
    "q:item":            _words("id", None),
    "p:subscribe":       _words("node jid"),
    "p:unsubscribe":     _words("node jid subid"),
    "p:options":         _words("node jid subid", "d:x"),
    "p:default":         _words("node"),
    "p:items":           _words("node max_items subid", None),
    "p:subscriptions":   _words("node"),
    "p:affiliations":    _words("node"),

    "o:pubsub":          _words("", None),
    "o:configure":       _words("node", "d:x"),
    "o:default":         _words("type"),
    "o:delete":          _words("node", None),
    "o:redirect":        _words("uri"),
    "o:purge":           _words("node"),
    "o:affiliations":    _words("node", None),
    "o:affiliation":     _words("jid affiliation"),
    "o:subscriptions":   _words("node", None),
    "o:subscription":    _words("jid subscription subid"),

    "x:meta":         _words("priority delay ttl group"),
    "x:lock":         _words("token"),
    "x:outcome":      _words("type delay reason"),
    "x:hold":         _words("within then", "x:signal x:carry x:join"),
    "x:join":         _words("closed"),
    "x:joins":        _words("node item last"),
    "x:close-join":   _words("node item"),
    "x:carry":        _words(""),
    "x:then":         _words("node priority delay ttl group", None),
    "x:signal":       _words("node item name id"),
    "x:signal-link":  _words("node item name within"),
    "x:touch":        _words("node seconds", None),
    "x:redrive":      _words("node to", None),
    "x:item":         _words("id"),
    "x:txn":          _words("app version part attempt visibility"),
    "x:commit":       _words("app version skipped dead-lettered seconds on-taken dead-letter-node progress", None),
    "x:abort":        _words("app account version", None),
    "x:part":         _words("n attempt items bytes"),
    "x:parts":        _words(""),
    "x:transactions": _words("app account state after max"),
    "x:events":       _words("node after until max"),
    "x:items":        _words("node after until max state payload"),
    "x:nodes":        _words("after max"),

    "d:x":       _words("type", None),
    "b:order":   _words("by desc"),
    "f:filter":  _words("", "d:x"),
    "r:set":     _words("", None),
    "r:after":   _words(""),
    "r:before":  _words(""),
    "r:max":     _words(""),
    "i:query":   _words("node"),
    "l:query":   _words("node", "r:set f:filter"),
    "c:command": _words("node sessionid action status", None),
}.items()}
"""The words of each element of a request."""

OF_GET: Final = {full(word): listed for word, listed in {
    "p:options":       _words("node jid subid"),
    "o:configure":     _words("node"),
    "o:affiliations":  _words("node"),
    "o:subscriptions": _words("node"),
    "x:txn":           _words("app account"),
}.items()}
"""Those of an IQ that only asks, where they differ."""

SEVERAL: Final = frozenset(map(full, (
    "p:item", "q:item", "x:item", "x:part", "x:signal", "x:then", "o:affiliation", "o:subscription", "b:order",
)))
"""The elements of which a request may have several: all count, or they say which does."""

_BOOLEAN: Final = ("0", "1", "false", "true")
VALUES: Final = {(full(tag), full(name)): values for (tag, name), values in {
    ("p:create", "type"):    ("leaf",),
    ("p:configure", "type"): ("leaf",),
    ("o:default", "type"):   ("leaf",),
    ("p:retract", "notify"): _BOOLEAN,
    ("x:commit", "progress"): _BOOLEAN,
    ("b:order", "desc"):     _BOOLEAN,
    ("x:join", "closed"):    _BOOLEAN,
    ("x:joins", "last"):     _BOOLEAN,
}.items()}
"""The values of attributes that no reader and no rule checks."""
# fmt: on

_READ_ELSEWHERE: Final = frozenset(map(full, ("p:item", "q:item", "d:x", "c:command")))
"""The elements whose contents are a payload, a form, or a step of a command."""

_KNOWN_SPACES: Final = frozenset(_SPACES.values())


def beyond_words(element: Element, kind: str) -> StanzaError | None:
    """Return why a request, in an IQ of this type, says something that would be ignored; None if all of it is read."""
    words = (kind == "get" and OF_GET.get(element.tag)) or WORDS.get(element.tag)
    if not words:
        return None  # its reader knows it, or refuses it
    name = _local(element.tag)
    for attribute, value in element.attributes.items():
        if not is_listed(words, attribute):
            return bad_request(text=f"{name} has no attribute {_local(attribute)}")
        values = VALUES.get((element.tag, attribute), (value,))
        if value == "collection" and values == ("leaf",):
            return unsupported("collections")
        if value not in values:
            return bad_request(text=f"{_local(attribute)} of {name} is {' or '.join(values)}")
    if element.tag in _READ_ELSEWHERE:
        return None
    counts = Counter(child.tag for child in element.children)
    for tag, count in counts.items():
        if words.children is not None and tag not in words.children:
            return _unexpected(element, tag)
        if count > 1 and tag in WORDS and tag not in SEVERAL:
            return bad_request(text=f"{name} contains {_local(tag)} twice")
    return next(filter(None, (beyond_words(child, kind) for child in element.children)), None)


def _unexpected(element: Element, tag: str) -> StanzaError:
    name, child = _local(element.tag), _local(tag)
    if tag in (WORDS[element.tag].children or ()):
        return bad_request(text=f"{name} contains {child} only in an IQ of type set")
    return bad_request(text=f"{name} contains an unknown element, {child}")


def is_listed(words: Words, attribute: str) -> bool:
    """Return whether an attribute is a word of the element, or about something else."""
    space, spaced, _ = attribute.rpartition(" ")
    return attribute in words.attributes or (bool(spaced) and space not in _KNOWN_SPACES)


def _local(tag: str) -> str:
    return tag.rpartition(" ")[2]


# What an IQ of Quality of Service carries (urn:xmpp:qos). The contents of a message are not judged before it is to be delivered.

MESSAGES: Final = frozenset(
    f"{namespace} message" for namespace in (ns.CLIENT, ns.COMPONENT, "jabber:server", ns.QOS)
)
"""The element of a carried message; a sender that declares no namespace has that of the IQ or of the element around it."""


@unique
class Step(StrEnum):
    """What an IQ asks."""

    ACKNOWLEDGED = "acknowledged"
    ASSURED = "assured"
    DELIVER = "deliver"


@dataclass(frozen=True, slots=True)
class Carried:
    """A step of a message; `message` has its bytes, except for a delivery."""

    step: Step
    iq_id: str
    msg_id: str
    message: bytes = b""

    @property
    def byte_count(self) -> int:
        """The bytes of memory that it takes."""
        return len(self.message)


def is_carried(child: Element) -> bool:
    """Return whether the child of an IQ is of Quality of Service."""
    return child.tag.partition(" ")[0] == ns.QOS


def read(stanza: Stanza) -> Carried | StanzaError:
    """Read what the IQ carries."""
    child = stanza.top.children[0]
    name = child.tag.partition(" ")[2]
    if stanza.top.get("type") != "set" or name not in list(Step):
        return bad_request(text="an IQ of type set has acknowledged, assured or deliver")
    step, iq_id = Step(name), stanza.top.get("id") or ""
    msg_id = "" if step is Step.ACKNOWLEDGED else child.get("msgId") or ""
    if step is not Step.ACKNOWLEDGED and not 0 < len(msg_id.encode()) <= MAX_ID_LENGTH:
        return bad_request(text=f"msgId has to have 1 to {MAX_ID_LENGTH} bytes")
    if child.text.strip():
        return bad_request(text=f"{step} contains no text")
    if step is Step.DELIVER:
        return (
            bad_request(text="deliver is empty") if child.children else Carried(step, iq_id, msg_id)
        )
    if [each.tag in MESSAGES for each in child.children] != [True]:
        return bad_request(text=f"{step} contains exactly one message")
    return Carried(step, iq_id, msg_id, stanza.cut([stanza.top, child, child.children[0]]))
