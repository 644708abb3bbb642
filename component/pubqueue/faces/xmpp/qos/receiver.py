"""The service as receiver: acknowledged messages have their effect before they are answered, assured ones are kept first."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from pubqueue.engine.observe import MessageCounts
from pubqueue.faces.xmpp.parse import carrying
from pubqueue.faces.xmpp.parse.carrying import Carried, Step
from pubqueue.faces.xmpp.qos.carried import MessageReader
from pubqueue.faces.xmpp.qos.deliveries import Deliveries, Recent, charge, is_behind
from pubqueue.faces.xmpp.qos.events import EventId, event_of
from pubqueue.faces.xmpp.refusals import StanzaError, behind, words
from pubqueue.faces.xmpp.stream.single import SingleMessage
from pubqueue.faces.xmpp.xml.text import attribute, quoted
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import digest
from pubqueue.model.records import mark_of
from pubqueue.rules.messages import KeepMessage
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.flow.intake import Load
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.qos.events import Events
    from pubqueue.faces.xmpp.xml.stanza import Stanza
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, Principal

    Iq = Stanza | SingleMessage
    """As it was read; one that was read by the short way is also what it carries."""

NOT_TAKEN: Final = frozenset(
    {Refusal.STORE_FAILED, Refusal.INTERNAL_FAULT, Refusal.STILL_NOTIFYING}
)
"""Refusals of an acknowledged message that could not be taken: nothing has happened, and its sender repeats it."""


def write_message_error(
    write: Callable[[bytes], bool], mine: str, to: Jid, name: str, error: StanzaError
) -> None:
    """Answer a message that was sent to this address of ours with an error, under its id if it has one."""
    words = f' id="{quoted(name)}"' if name else ""
    start = f'<message type="error"{words} from="{attribute(mine)}" to="{attribute(to)}">'
    write(f"{start}{error.render()}</message>".encode())


class Receiver:
    """Takes messages that IQs carry, and counts them."""

    def __init__(self, link: Link, events: Events) -> None:
        self._broker, self._answers, self._write = link.broker, link.answers, link.write
        self._jid, self._reader = link.jid, MessageReader(link.jid)
        self._intake, self.events = link.intake, events
        self.counts = MessageCounts(Counter(), Counter())
        self.recent = Recent()
        self.deliveries = Deliveries(link, self.recent, self._reader, self.counts)

    def take(self, iq: Iq, by: Principal) -> None:
        """Take what the IQ carries; refuse it if it is malformed."""
        found = iq if isinstance(iq, SingleMessage) else carrying.read(iq)
        if isinstance(found, StanzaError):
            self._answers.refuse(iq, found)
            self._intake.charge(by, iq.cost)
            self._note(by.jid, EventId.MALFORMED)
        else:
            TAKE[found.step](self, iq, by, found)

    def _note(self, sender: Jid, kind: EventId) -> None:
        self.counts.refused[kind.value] += 1
        self.events.refused(sender, kind)

    # --- acknowledged ---

    def _acknowledged(self, iq: Iq, by: Principal, found: Carried | SingleMessage) -> None:
        request, message_id = self._reader.asked(found, by)
        answer = partial(self._acknowledge, iq, by, message_id or found.iq_id)
        if request is None or isinstance(request, StanzaError):
            answer(request)
        elif is_behind(self._broker, request):
            self._answers.refuse(iq, behind())
        else:
            load = self._intake.take(by, len(iq.raw), request)
            self._broker.submit(request, partial(self._was_done, load, iq, answer))

    def _was_done(
        self, load: Load, iq: Iq, answer: Callable[[StanzaError | None], None], reply: Reply
    ) -> None:
        self._intake.done(load)
        if not isinstance(reply, Refused):
            answer(None)
        elif reply.refusal in NOT_TAKEN:
            self._answers.refuse(iq, words(reply))
        else:
            answer(words(reply))

    def _acknowledge(
        self, iq: Iq, by: Principal, message_id: str, error: StanzaError | None
    ) -> None:
        """Answer that the message was received; what it asks may be refused nevertheless."""
        self.counts.taken[Step.ACKNOWLEDGED.value] += 1
        self._answers.answer(iq, b"")
        if error is not None:
            write_message_error(self._write, self._jid, by.jid, message_id, error)
            charge(self._intake, by, iq, error)

    # --- assured ---

    def _assured(self, iq: Iq, by: Principal, found: Carried | SingleMessage) -> None:
        message = found.message
        request = KeepMessage(by, found.msg_id, found.iq_id, digest(message), message)
        load = self._intake.take(by, len(iq.raw), request)
        self._broker.submit(request, partial(self._was_kept, load, iq, found, request))

    def _was_kept(
        self,
        load: Load,
        iq: Iq,
        found: Carried | SingleMessage,
        request: KeepMessage,
        reply: Reply,
    ) -> None:
        self._intake.done(load)
        if isinstance(reply, Refused):
            error = words(reply)
            self._answers.refuse(iq, error)
            charge(self._intake, request.by, iq, error)
            if (kind := event_of(reply)) is not None:
                self._note(request.by.jid, kind)
            return
        self.counts.taken[Step.ASSURED.value] += 1
        self.recent.add(mark_of(request.by.jid, request.msg_id), found, request.digest)
        received = f'<received xmlns="{ns.QOS}" msgId="{quoted(request.msg_id)}"/>'
        self._answers.answer(iq, received.encode())


TAKE: Final[dict[Step, Callable[[Receiver, Iq, Principal, Carried | SingleMessage], None]]] = {
    Step.ACKNOWLEDGED: Receiver._acknowledged,  # noqa: SLF001  # its own table
    Step.ASSURED: Receiver._assured,  # noqa: SLF001
    Step.DELIVER: lambda self, iq, by, found: self.deliveries.take(iq, by, found.msg_id),
}
