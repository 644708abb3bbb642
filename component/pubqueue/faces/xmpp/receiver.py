"""The service as receiver of messages that carry a request, keeps them, and reports what became of them."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import asdict, dataclass, replace
from enum import StrEnum, unique
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import json

from pubqueue.engine.observe import MessageCounts
from pubqueue.faces.flow import notified_nodes
from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.parse import nodes, queue
from pubqueue.faces.xmpp.parse.iq import Carried, Iq, Step, beyond_words, read
from pubqueue.faces.xmpp.settings import DEFAULTS
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import SingleMessage
from pubqueue.faces.xmpp.xml.refusals import StanzaError, behind, excessive, words
from pubqueue.faces.xmpp.xml.stanza import Stanza, attribute, escape, new_id, quoted, stamp
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import account_of, digest
from pubqueue.model.records import (
    MAX_REASON_LENGTH,
    MessageChanged,
    MessageDelivered,
    MessageRead,
    mark_of,
)
from pubqueue.rules.messages import DeliverMessage, KeepMessage, ReadMessage
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.engine.admission import Admission, Load
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.settings import QosSettings
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, Millis, Principal
    from pubqueue.model.records import KeptMessage
    from pubqueue.rules.presence import Bounce
    from pubqueue.rules.publication import Publish
    from pubqueue.rules.staging import StagePublish
    from pubqueue.rules.subscribers import Answer

    Asked = Publish | StagePublish | Answer | Bounce
    AnyIq = Stanza | SingleMessage
    """As it was read; one that was read by the short way is also what it carries."""


# The service as receiver: acknowledged messages have their effect before they are answered, assured ones are kept first.


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
        self._admission, self.events = link.admission, events
        self.counts = MessageCounts(Counter(), Counter())
        self.recent = Recent()
        self.deliveries = Deliveries(link, self.recent, self._reader, self.counts)

    def take(self, iq: AnyIq, by: Principal) -> None:
        """Take what the IQ carries; refuse it if it is malformed."""
        found = iq if isinstance(iq, SingleMessage) else read(iq)
        if isinstance(found, StanzaError):
            self._answers.refuse(iq, found)
            self._admission.charge(by, iq.cost)
            self._note(by.jid, EventId.MALFORMED)
        else:
            TAKE[found.step](self, iq, by, found)

    def _note(self, sender: Jid, kind: EventId) -> None:
        self.counts.refused[kind.value] += 1
        self.events.refused(sender, kind)

    # --- acknowledged ---

    def _acknowledged(self, iq: AnyIq, by: Principal, found: Carried | SingleMessage) -> None:
        request, message_id = self._reader.asked(found, by)
        answer = partial(self._acknowledge, iq, by, message_id or found.iq_id)
        if request is None or isinstance(request, StanzaError):
            answer(request)
        elif is_behind(self._broker, request):
            self._answers.refuse(iq, behind())
        else:
            load = self._admission.take(by, len(iq.raw), request)
            self._broker.submit(request, partial(self._was_done, load, iq, answer))

    def _was_done(
        self, load: Load, iq: AnyIq, answer: Callable[[StanzaError | None], None], reply: Reply
    ) -> None:
        self._admission.done(load)
        if not isinstance(reply, Refused):
            answer(None)
        elif reply.refusal in NOT_TAKEN:
            self._answers.refuse(iq, words(reply))
        else:
            answer(words(reply))

    def _acknowledge(
        self, iq: AnyIq, by: Principal, message_id: str, error: StanzaError | None
    ) -> None:
        """Answer that the message was received; what it asks may be refused nevertheless."""
        self.counts.taken[Step.ACKNOWLEDGED.value] += 1
        self._answers.answer(iq, b"")
        if error is not None:
            write_message_error(self._write, self._jid, by.jid, message_id, error)
            charge(self._admission, by, iq, error)

    # --- assured ---

    def _assured(self, iq: AnyIq, by: Principal, found: Carried | SingleMessage) -> None:
        message = found.message
        request = KeepMessage(by, found.msg_id, found.iq_id, digest(message), message)
        load = self._admission.take(by, len(iq.raw), request)
        self._broker.submit(request, partial(self._was_kept, load, iq, found, request))

    def _was_kept(
        self,
        load: Load,
        iq: AnyIq,
        found: Carried | SingleMessage,
        request: KeepMessage,
        reply: Reply,
    ) -> None:
        self._admission.done(load)
        if isinstance(reply, Refused):
            error = words(reply)
            self._answers.refuse(iq, error)
            charge(self._admission, request.by, iq, error)
            if (kind := event_of(reply)) is not None:
                self._note(request.by.jid, kind)
            return
        self.counts.taken[Step.ASSURED.value] += 1
        self.recent.add(mark_of(request.by.jid, request.msg_id), found, request.digest)
        received = f'<received xmlns="{ns.QOS}" msgId="{quoted(request.msg_id)}"/>'
        self._answers.answer(iq, received.encode())


TAKE: Final[dict[Step, Callable[[Receiver, AnyIq, Principal, Carried | SingleMessage], None]]] = {
    Step.ACKNOWLEDGED: Receiver._acknowledged,  # noqa: SLF001  # its own table
    Step.ASSURED: Receiver._assured,  # noqa: SLF001
    Step.DELIVER: lambda self, iq, by, found: self.deliveries.take(iq, by, found.msg_id),
}


# Reads the request in a message: a publish (XEP-0060 7.1), an owner's answer (8.6), or none. A message of type error is a bounce.

_PUBSUB, _PUBLISH = ns.tag(ns.PUBSUB, "pubsub"), ns.tag(ns.PUBSUB, "publish")


def publish_in(top: Element) -> Element | None:
    """Return the `pubsub` child of a message that begins with a `publish`, or None; a message of type error publishes nothing."""
    pubsub = top.find(_PUBSUB)
    if pubsub is None or top.get("type") == "error" or not pubsub.children:
        return None
    return pubsub if pubsub.children[0].tag == _PUBLISH else None


def asked(stanza: Stanza, by: Principal, new_id: Callable[[], str]) -> Asked | StanzaError | None:
    """Read the request in a message; None if there is none."""
    top = stanza.top
    if top.get("type") == "error":
        return bounces.bounce(top)
    pubsub = publish_in(top)
    if pubsub is None:
        return nodes.answer(stanza, by)
    if stanza.excess:
        return excessive(stanza.excess)
    return beyond_words(pubsub, "set") or queue.publish(Iq(stanza.narrowed(pubsub), by, new_id))


# Reads what carried messages ask.

HEADER: Final = (
    f"<stream:stream xmlns='{ns.COMPONENT}' xmlns:stream='http://etherx.jabber.org/streams'>"
).encode()


class MessageReader:
    """Reads carried messages as stanzas; one parser serves them all, because making one takes longer than reading a message."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._parser: StreamParser | None = None

    def asked(
        self, found: Carried | SingleMessage, by: Principal
    ) -> tuple[Asked | StanzaError | None, str]:
        """Return what a message asks, or None, and the id of the message."""
        if isinstance(found, SingleMessage):
            return found.publish(by, new_id), found.message_id
        stanza = self.read(found.message, by.jid)
        return asked(stanza, by, new_id), stanza.top.get("id") or ""

    def read(self, message: bytes, sender: Jid) -> Stanza:
        """Return a message as a stanza from its sender to the service, whatever addresses it has itself."""
        parser, self._parser = self._parser or _parser(), None  # after a fault it is not used again
        (stanza,) = parser.feed(message)
        self._parser = parser
        assert isinstance(stanza, Stanza)  # it was cut out of a stanza
        top = stanza.top
        top.attributes = top.attributes | {"from": sender, "to": self._service}
        return stanza


def _parser() -> StreamParser:
    parser = StreamParser()
    parser.feed(HEADER)
    return parser


# Deliveries of messages that are kept. Those of one full JID have their effect in the order in which they were asked for.
#
# A message is read from the bytes that are kept: the last ones are here, earlier ones are read from the store.

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
    return any(map(broker.outbox.is_behind, notified_nodes(request)))


def charge(
    admission: Admission, by: Principal, iq: Stanza | SingleMessage, error: StanzaError
) -> None:
    """Count the cost of reading an IQ whose message is refused, unless it is to be sent again."""
    if error.type != "wait":
        admission.charge(by, iq.cost)


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
        self._broker, self._answers, self._admission = link.broker, link.answers, link.admission
        self._recent, self._reader, self._counts = recent, reader, counts
        self._lines: dict[Jid, deque[Delivery]] = {}
        """By full JID of which a message is being read: its later deliveries."""

    def take(self, iq: Stanza | SingleMessage, by: Principal, msg_id: str) -> None:
        """Deliver the message, after those of the same full JID that were asked for before."""
        asked = Delivery(self._admission.take(by, len(iq.raw)), iq, by, msg_id)
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
        self._admission.done(asked.load)
        if error is not None:
            self._answers.refuse(asked.iq, error)
            charge(self._admission, asked.by, asked.iq, error)
        else:
            self._recent.forget(asked.mark)
            self._answers.answer(asked.iq, b"")


# Events about refused and expired messages (XEP-0337): a log line, and a message to each JID that wants them.
#
# Strangers can cause any number of them. So events are limited per minute, and to one per interval for each account and kind; the next
# event has the number of those that were left out. An event contains no payload.

log = structlog.get_logger(__name__)

MAX_KINDS: Final = 1_000
"""Maximum pairs of account and kind that are counted at a time; further ones cause no event."""

MINUTE: Final = 60.0


@unique
class EventId(StrEnum):
    """The kinds of events."""

    UNTRUSTED = "Untrusted"
    SOURCE_FULL = "SourceFull"
    STORE_FULL = "StoreFull"
    MALFORMED = "Malformed"
    REUSED = "Reused"
    EXPIRED = "Expired"


# fmt: off
SENTENCES: Final[dict[EventId, tuple[str, str]]] = {
    EventId.UNTRUSTED:   ("not-allowed",         "An assured message was refused, because its sender is not trusted."),
    EventId.SOURCE_FULL: ("resource-constraint", "An assured message was refused, because its account has reached its limit."),
    EventId.STORE_FULL:  ("resource-constraint", "An assured message was refused, because the service has reached its limit."),
    EventId.MALFORMED:   ("bad-request",         "A request of Quality of Service was refused, because it is malformed."),
    EventId.REUSED:      ("conflict",            "An assured message was refused, because its id belongs to another one that is held."),
    EventId.EXPIRED:     ("",                    "An assured message was dropped, because its sender did not ask for the delivery in time."),
}
# fmt: on
"""The condition of the refusal, and the description."""


def event_of(refused: Refused) -> EventId | None:
    """Return the event for the refusal of an assured message."""
    match refused.refusal:
        case Refusal.NOT_TRUSTED:
            return EventId.UNTRUSTED
        case Refusal.KEY_REUSED:
            return EventId.REUSED
        case Refusal.TOO_MUCH_HELD:
            of_account = refused.setting.endswith("_per_account")
            return EventId.SOURCE_FULL if of_account else EventId.STORE_FULL
        case _:
            return None


class Events:
    """Sends events. Call it only in the event loop of the stream that `write` writes to."""

    def __init__(
        self,
        service: str,
        write: Callable[[bytes], bool],
        now: Callable[[], Millis],
        new_id: Callable[[], str],
        qos: QosSettings = DEFAULTS.qos,
    ) -> None:
        self._service, self._write, self._now, self._new_id = service, write, now, new_id
        self.qos = qos
        self._waiting: dict[tuple[Jid, EventId], int] = {}
        """The number of occurrences that no event has reported yet, by account and kind."""
        self._sent: deque[float] = deque()

    def refused(self, sender: Jid, kind: EventId) -> None:
        """Note that a message of this sender was refused."""
        self._note(sender, kind)

    def expired(self, messages: Iterable[KeptMessage]) -> None:
        """Note that these held messages have expired."""
        for message in messages:
            self._note(message.sender, EventId.EXPIRED)

    def _note(self, sender: Jid, kind: EventId) -> None:
        key = account_of(sender), kind
        if key in self._waiting:
            self._waiting[key] += 1
        elif len(self._waiting) < MAX_KINDS:
            self._begin(sender, kind, 1)

    def _begin(self, sender: Jid, kind: EventId, count: int) -> None:
        """Send an event, unless there were too many, and check again after the interval."""
        loop, key = asyncio.get_running_loop(), (account_of(sender), kind)
        sent = self._may_send(loop.time())
        self._waiting[key] = 0 if sent else count
        if sent:
            self._send(sender, kind, count)
        loop.call_later(self.qos.events_every, self._end, sender, kind)

    def _end(self, sender: Jid, kind: EventId) -> None:
        count = self._waiting.pop((account_of(sender), kind))
        if count:
            self._begin(sender, kind, count)

    def _may_send(self, now: float) -> bool:
        while self._sent and self._sent[0] <= now - MINUTE:
            self._sent.popleft()
        if len(self._sent) >= self.qos.events_per_minute:
            return False
        self._sent.append(now)
        return True

    def _send(self, sender: Jid, kind: EventId, count: int) -> None:
        condition, sentence = SENTENCES[kind]
        event = "qos.expired" if kind is EventId.EXPIRED else "qos.refused"
        log.info(event, sender=sender, why=kind.value, count=count)
        tags = (("condition", condition), ("count", str(count)))
        listed = "".join(f'<tag name="{name}" value="{value}"/>' for name, value in tags if value)
        words = (
            f'timestamp="{stamp(self._now())}" type="Warning" id="{kind}" object="{attribute(sender)}" '
            f'subject="{attribute(self._service)}" module="qos"'
        )
        inner = f"<message>{escape(sentence)}</message>{listed}"
        for to in self.qos.events_to:
            start = f'<message from="{attribute(self._service)}" to="{attribute(to)}" id="{self._new_id()}">'
            self._write(
                f'{start}<log xmlns="{ns.EVENT_LOG}" {words}>{inner}</log></message>'.encode()
            )
