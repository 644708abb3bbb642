"""Events about refused and expired messages (XEP-0337): a log line, and a message to each JID that wants them.

Strangers can cause any number of them. So events are limited per minute, and to one per interval for each account and kind; the next
event has the number of those that were left out. An event contains no payload.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.faces.xmpp.qos.terms import DEFAULTS, QosTerms
from pubqueue.faces.xmpp.xml.text import attribute, escape, stamp
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import account_of
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.model.entities import Jid, Millis
    from pubqueue.model.records import KeptMessage

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
        terms: QosTerms = DEFAULTS,
    ) -> None:
        self._service, self._write, self._now, self._new_id = service, write, now, new_id
        self.terms = terms
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
        loop.call_later(self.terms.events_every, self._end, sender, kind)

    def _end(self, sender: Jid, kind: EventId) -> None:
        count = self._waiting.pop((account_of(sender), kind))
        if count:
            self._begin(sender, kind, count)

    def _may_send(self, now: float) -> bool:
        while self._sent and self._sent[0] <= now - MINUTE:
            self._sent.popleft()
        if len(self._sent) >= self.terms.events_per_minute:
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
        for to in self.terms.events_to:
            start = f'<message from="{attribute(self._service)}" to="{attribute(to)}" id="{self._new_id()}">'
            self._write(
                f'{start}<log xmlns="{ns.EVENT_LOG}" {words}>{inner}</log></message>'.encode()
            )
