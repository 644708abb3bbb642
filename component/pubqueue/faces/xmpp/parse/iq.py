"""What every parser needs: the IQ, and readers for its attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pubqueue.faces.xmpp.refusals import NODEID_REQUIRED, StanzaError, bad_request
from pubqueue.faces.xmpp.xml import forms, jids
from pubqueue.model.entities import ItemId, Millis, NodeName, seconds
from pubqueue.rules.validity import NO_SPAN
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
    from pubqueue.model.decision import Refused
    from pubqueue.model.entities import Principal

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


jid_of: Final = jids.jid_of


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
