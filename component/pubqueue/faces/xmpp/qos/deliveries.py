"""Deliveries of messages that are kept. Those of one full JID have their effect in the order in which they were asked for.

A message is read from the bytes that are kept: the last ones are here, earlier ones are read from the store.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import json

from pubqueue.faces.flow.intake import notified_node
from pubqueue.faces.xmpp.parse.carrying import Carried, Step
from pubqueue.faces.xmpp.refusals import StanzaError, behind, words
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.records import (
    MAX_REASON_LENGTH,
    MessageChanged,
    MessageDelivered,
    MessageRead,
    mark_of,
)
from pubqueue.rules.messages import DeliverMessage, ReadMessage

if TYPE_CHECKING:
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.observe import MessageCounts
    from pubqueue.faces.flow.intake import Intake, Load
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.qos.carried import MessageReader
    from pubqueue.faces.xmpp.stream.single import SingleMessage
    from pubqueue.faces.xmpp.xml.stanza import Stanza
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, Principal

MAX_RECENT: Final = 1_000
MAX_RECENT_BYTES: Final = 4 << 20
"""Messages that were kept last, and their bytes, which are not read from the store again."""

MAX_TRIES: Final = 4
"""How many times a message is read that is replaced by another while it is read."""

NOTHING_ASKED: Final = StanzaError(
    "cancel",
    "feature-not-implemented",
    text="the message is neither a publish nor an answer to a request",
)


class Recent:
    """The messages that were kept last, by mark, up to so many bytes."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, tuple[Carried | SingleMessage, bytes]] = OrderedDict()
        self.byte_count = 0

    def add(self, mark: str, found: Carried | SingleMessage, digest: bytes) -> None:
        """Remember a message and its digest."""
        self.forget(mark)
        self._messages[mark] = found, digest
        self.byte_count += found.byte_count
        while self.byte_count > MAX_RECENT_BYTES or len(self._messages) > MAX_RECENT:
            self.forget(next(iter(self._messages)))

    def forget(self, mark: str) -> None:
        """Forget a message."""
        found = self._messages.pop(mark, None)
        self.byte_count -= found[0].byte_count if found else 0

    def find(self, mark: str) -> tuple[Carried | SingleMessage, bytes] | None:
        """Return a message and its digest, if it is here."""
        return self._messages.get(mark)


@dataclass(slots=True)
class Delivery:
    """A delivery that was asked for, and how many times the message may be read again."""

    load: Load
    iq: Stanza | SingleMessage
    by: Principal
    msg_id: str
    tries: int = MAX_TRIES

    @property
    def mark(self) -> str:
        """What identifies the message."""
        return mark_of(self.by.jid, self.msg_id)


def is_behind(broker: Broker, request: object) -> bool:
    """Return whether the request has to wait, because its node has too many notifications that are not sent yet."""
    node = notified_node(request)
    return node is not None and broker.outbox.is_behind(node)


def charge(intake: Intake, by: Principal, iq: Stanza | SingleMessage, error: StanzaError) -> None:
    """Count the cost of reading an IQ whose message is refused, unless it is to be sent again."""
    if error.type != "wait":
        intake.charge(by, iq.cost)


def _short(error: StanzaError) -> StanzaError:
    """Return an error as it is remembered; its text may repeat what the message has."""
    return replace(error, text=error.text[:MAX_REASON_LENGTH])


class Deliveries:
    """Takes requests to deliver."""

    def __init__(
        self,
        link: Link,
        recent: Recent,
        reader: MessageReader,
        counts: MessageCounts,
    ) -> None:
        self._broker, self._answers, self._intake = link.broker, link.answers, link.intake
        self._recent, self._reader, self._counts = recent, reader, counts
        self._lines: dict[Jid, deque[Delivery]] = {}
        """By full JID of which a message is being read: its later deliveries."""

    def take(self, iq: Stanza | SingleMessage, by: Principal, msg_id: str) -> None:
        """Deliver the message, after those of the same full JID that were asked for before."""
        asked = Delivery(self._intake.take(by, len(iq.raw)), iq, by, msg_id)
        if by.jid in self._lines:
            self._lines[by.jid].append(asked)
        else:
            self._begin(asked)

    def _begin(self, asked: Delivery) -> None:
        known = self._recent.find(asked.mark)
        if known is not None:
            self._submit(asked, *known)
            return
        self._lines.setdefault(asked.by.jid, deque())
        wanted = DeliverMessage(asked.by, asked.msg_id)
        self._broker.submit(wanted, partial(self._was_looked_for, asked))

    def _was_looked_for(self, asked: Delivery, reply: Reply) -> None:
        """Read the message if one is held; most that are asked for and not known here have ended, or never came."""
        if isinstance(reply, MessageChanged):
            read = ReadMessage(asked.by, asked.msg_id)
            self._broker.submit(read, partial(self._was_read, asked))
            return
        line = self._lines.pop(asked.by.jid)
        self._was_delivered(asked, reply)
        self._go_on(asked, line)

    def _was_read(self, asked: Delivery, reply: Reply) -> None:
        line = self._lines.pop(asked.by.jid)
        if isinstance(reply, MessageRead):
            message = Carried(Step.ASSURED, "", asked.msg_id, reply.message)
            self._submit(asked, message, reply.digest)
        else:
            self._refuse(asked, reply)
        self._go_on(asked, line)

    def _go_on(self, asked: Delivery, line: deque[Delivery]) -> None:
        """Deliver what was asked for since."""
        while line and asked.by.jid not in self._lines:
            self._begin(line.popleft())
        if line:
            self._lines[asked.by.jid].extend(line)

    def _submit(self, asked: Delivery, found: Carried | SingleMessage, digest: bytes) -> None:
        request, _ = self._reader.asked(found, asked.by) if digest else (None, "")
        if is_behind(self._broker, request):
            self._end(asked, behind())
            return
        otherwise = ""
        if request is None or isinstance(request, StanzaError):
            otherwise = json.encode(asdict(_short(request or NOTHING_ASKED))).decode()
            request = None
        wanted = DeliverMessage(asked.by, asked.msg_id, digest, request, otherwise)
        self._broker.submit(wanted, partial(self._was_delivered, asked))

    def _was_delivered(self, asked: Delivery, reply: Reply) -> None:
        if isinstance(reply, MessageChanged) and asked.tries:
            asked.tries -= 1
            self._recent.forget(asked.mark)
            self._begin(asked)
        elif isinstance(reply, MessageChanged | Refused):
            self._refuse(asked, reply)
        elif isinstance(reply, MessageDelivered) and reply.words:
            self._end(asked, StanzaError(**json.decode(reply.words)))
        else:
            self._counts.taken[Step.DELIVER.value] += 1
            self._end(asked)

    def _refuse(self, asked: Delivery, reply: Reply) -> None:
        """Answer with the refusal; anything else is asked for again later."""
        later = Refused(Refusal.STORE_FAILED)
        self._end(asked, words(reply if isinstance(reply, Refused) else later))

    def _end(self, asked: Delivery, error: StanzaError | None = None) -> None:
        self._intake.done(asked.load)
        if error is not None:
            self._answers.refuse(asked.iq, error)
            charge(self._intake, asked.by, asked.iq, error)
        else:
            self._recent.forget(asked.mark)
            self._answers.answer(asked.iq, b"")
