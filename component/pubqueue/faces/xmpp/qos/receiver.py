"""The service as receiver: acknowledged messages have their effect before they are answered, assured ones are kept first."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from pubqueue.app.watch.watching import MessageCounts
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import digest
from pubqueue.core.qos.keep import KeepMessage
from pubqueue.core.qos.model import mark_of
from pubqueue.faces.xmpp.qos import carried as wire
from pubqueue.faces.xmpp.qos.asking import asked
from pubqueue.faces.xmpp.qos.carried import Step
from pubqueue.faces.xmpp.qos.deliveries import Deliveries, Recent, charge, is_behind
from pubqueue.faces.xmpp.qos.events import EventId, event_of
from pubqueue.faces.xmpp.refusals import StanzaError, behind, words
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.faces.xmpp.xml.text import attribute, quoted
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Jid, Principal
    from pubqueue.faces.flow.intake import Load
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.qos.asking import Asked
    from pubqueue.faces.xmpp.qos.carried import Carried
    from pubqueue.faces.xmpp.qos.events import Events
    from pubqueue.faces.xmpp.xml.stanza import Stanza

NOT_TAKEN: Final = frozenset(
    {Refusal.STORE_FAILED, Refusal.INTERNAL_FAULT, Refusal.STILL_NOTIFYING}
)
"""Refusals of an acknowledged message that could not be taken: nothing has happened, and its sender repeats it."""


def write_message_error(
    write: Callable[[bytes], bool], stanza: Stanza, error: StanzaError, other_id: str | None = None
) -> None:
    """Answer a message with an error, under its id, or under another one if it has none."""
    top = stanza.top
    own = top.get("id") or other_id
    name = f' id="{quoted(own)}"' if own else ""
    start = f'<message type="error"{name} from="{attribute(top.get("to") or "")}" to="{attribute(top.attributes["from"])}">'
    write(f"{start}{error.render()}</message>".encode())


class Receiver:
    """Takes messages that IQs carry, and counts them."""

    def __init__(self, link: Link, events: Events) -> None:
        self._broker, self._answers, self._write = link.broker, link.answers, link.write
        self._reader = wire.MessageReader(link.jid)
        self._intake, self.events = link.intake, events
        self.counts = MessageCounts(Counter(), Counter())
        self.recent = Recent()
        self.deliveries = Deliveries(link, self.recent, self._ask, self.counts)

    def take(self, stanza: Stanza, by: Principal) -> None:
        """Take what the IQ carries; refuse it if it is malformed."""
        found = wire.read(stanza)
        if isinstance(found, StanzaError):
            self._answers.refuse(stanza, found)
            self._intake.charge(by, stanza.cost)
            self._note(by.jid, EventId.MALFORMED)
        else:
            TAKE[found.step](self, stanza, by, found)

    def _note(self, sender: Jid, kind: EventId) -> None:
        self.counts.refused[kind.value] += 1
        self.events.refused(sender, kind)

    def _ask(self, by: Principal, message: bytes) -> Asked | StanzaError | None:
        return asked(self._reader.read(message, by.jid), by, new_id)

    # --- acknowledged ---

    def _acknowledged(self, stanza: Stanza, by: Principal, found: Carried) -> None:
        inner = self._reader.read(found.message, by.jid)
        request = asked(inner, by, new_id)
        if request is None or isinstance(request, StanzaError):
            self._acknowledge(stanza, by, inner, request)
        elif is_behind(self._broker, request):
            self._answers.refuse(stanza, behind())
        else:
            load = self._intake.take(by, len(stanza.raw), request)
            self._broker.submit(request, partial(self._was_done, load, stanza, by, inner))

    def _was_done(
        self, load: Load, stanza: Stanza, by: Principal, inner: Stanza, reply: Reply
    ) -> None:
        self._intake.done(load)
        if not isinstance(reply, Refused):
            self._acknowledge(stanza, by, inner, None)
        elif reply.refusal in NOT_TAKEN:
            self._answers.refuse(stanza, words(reply))
        else:
            self._acknowledge(stanza, by, inner, words(reply))

    def _acknowledge(
        self, stanza: Stanza, by: Principal, inner: Stanza, error: StanzaError | None
    ) -> None:
        """Answer that the message was received; what it asks may be refused nevertheless."""
        self.counts.taken[Step.ACKNOWLEDGED.value] += 1
        self._answers.answer(stanza, b"")
        if error is not None:
            write_message_error(self._write, inner, error, stanza.top.get("id"))
            charge(self._intake, by, stanza, error)

    # --- assured ---

    def _assured(self, stanza: Stanza, by: Principal, found: Carried) -> None:
        body = found.message
        name = stanza.top.get("id") or ""
        request = KeepMessage(by, found.msg_id, name, digest(body), body)
        load = self._intake.take(by, len(stanza.raw), request)
        self._broker.submit(request, partial(self._was_kept, load, stanza, request))

    def _was_kept(self, load: Load, stanza: Stanza, request: KeepMessage, reply: Reply) -> None:
        self._intake.done(load)
        if isinstance(reply, Refused):
            error = words(reply)
            self._answers.refuse(stanza, error)
            charge(self._intake, request.by, stanza, error)
            if (kind := event_of(reply)) is not None:
                self._note(request.by.jid, kind)
            return
        self.counts.taken[Step.ASSURED.value] += 1
        self.recent.add(mark_of(request.by.jid, request.msg_id), (request.message, request.digest))
        received = f'<received xmlns="{ns.QOS}" msgId="{quoted(request.msg_id)}"/>'
        self._answers.answer(stanza, received.encode())


TAKE: Final[dict[Step, Callable[[Receiver, Stanza, Principal, Carried], None]]] = {
    Step.ACKNOWLEDGED: Receiver._acknowledged,  # noqa: SLF001  # its own table
    Step.ASSURED: Receiver._assured,  # noqa: SLF001
    Step.DELIVER: lambda self, stanza, by, found: self.deliveries.take(stanza, by, found.msg_id),
}
