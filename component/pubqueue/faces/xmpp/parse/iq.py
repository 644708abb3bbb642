"""What every parser needs, and what an IQ of Quality of Service carries (urn:xmpp:qos)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Any, Final, Protocol

from pubqueue.faces.xmpp.xml import forms, stanza
from pubqueue.faces.xmpp.xml.refusals import NODEID_REQUIRED, StanzaError, bad_request
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

    `features` returns the features of the service for an account.
    """

    stanza: Stanza
    by: Principal
    new_id: Callable[[], str]
    features: Callable[[Principal], tuple[str, ...]] = lambda _by: ()
    command_handler: CommandHandler | None = None
    """Where the commands of the face are served."""

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
