"""The table `[qos]`, and the other settings of XMPP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.entities import seconds
from pubqueue.model.records import MESSAGE_LIMITS, AssuredFrom, MessageLimits
from pubqueue.rules.deliveries import USUAL, Repeating

if TYPE_CHECKING:
    from pubqueue.model.entities import Jid


# The table `[qos]`: Quality of Service for messages of XMPP (urn:xmpp:qos).

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Span = Annotated[float, msgspec.Meta(gt=0, le=31_622_400)]


class QosSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Quality of Service for messages of XMPP, `urn:xmpp:qos` ([how to](../how-to/qos.md))."""

    enabled: bool = True
    """Whether acknowledged and assured messages are accepted and advertised, and deliveries are sent at a level."""
    assured_from: AssuredFrom = MESSAGE_LIMITS.assured_from
    """From whom assured messages are accepted, which the service stores before it delivers them: `known` (administrators, accounts of the
    domain above the component's, accounts with an affiliation to any node), `affiliated` (not those of the domain), `anyone`. Never from
    anonymous accounts."""
    messages_per_account: _Count = MESSAGE_LIMITS.messages_per_account
    """Assured messages that are held of one account. One more is refused with `resource-constraint` of type `wait`."""
    bytes_per_account: _Count = MESSAGE_LIMITS.bytes_per_account
    """Bytes of the assured messages that are held of one account."""
    messages: _Count = MESSAGE_LIMITS.messages
    """Assured messages that are held of all accounts."""
    bytes: _Count = MESSAGE_LIMITS.bytes
    """Bytes of the assured messages that are held of all accounts."""
    kept_for: _Span = MESSAGE_LIMITS.kept_for / 1000
    """Seconds for which an assured message is held until its sender asks for the delivery; then it is dropped."""
    remembered_for: _Span = MESSAGE_LIMITS.remembered_for / 1000
    """Seconds for which the answer to a delivery is remembered, for senders that repeat the request."""
    remembered_per_account: _Count = MESSAGE_LIMITS.remembered_per_account
    """Answers that are remembered for one account; the oldest are dropped first."""
    events_to: tuple[str, ...] = ()
    """JIDs that are sent an event (XEP-0337) for each refused or expired message. Empty: the administrators."""
    events_every: _Span = 60.0
    """Seconds between two events about one account of one kind; an event has the number of those that it stands for."""
    events_per_minute: _Count = 60
    """Events in all."""

    attempts: _Count = USUAL.attempts
    """How often a delivery at a level is sent in all, if the worker does not answer; then its items are free."""
    retry_after: _Span = USUAL.first
    """Seconds until a delivery that is not answered is sent again; each time twice as long."""
    retry_longest: _Span = USUAL.longest
    """The longest of these pauses, in seconds."""

    def repeating(self) -> Repeating | None:
        """Return how deliveries are repeated; None if all are messages."""
        if not self.enabled:
            return None
        return Repeating(self.attempts, self.retry_after, self.retry_longest)

    def limits(self) -> MessageLimits:
        """Return the bounds as the rules take them."""
        return MessageLimits(
            self.assured_from,
            *(self.messages_per_account, self.bytes_per_account, self.messages, self.bytes),
            kept_for=seconds(self.kept_for),
            remembered_for=seconds(self.remembered_for),
            remembered_per_account=self.remembered_per_account,
        )


# The settings of the face: keys without a table, and the table `[qos]`.


class WithXmpp(Protocol):
    """Settings that have those of XMPP."""

    @property
    def jid(self) -> str:
        """The address of the component."""

    @property
    def settle_by_get(self) -> bool:
        """Whether an IQ of type `get` retracts and unlocks."""

    @property
    def auto_creates(self) -> bool:
        """Whether a publish can create a node."""

    @property
    def ping_after(self) -> float:
        """Seconds after which a silent worker is pinged."""

    @property
    def qos(self) -> QosSettings:
        """The table `[qos]`."""

    def administrators(self) -> tuple[Jid, ...]:
        """Return the accounts that may do everything."""

    def shared_secret(self) -> str:
        """Return the secret of the component."""

    def address(self) -> tuple[str, int]:
        """Return host and port of the server."""


class ServerPlace(Struct, frozen=True):
    """The port of a server for components, and the name and secret that it knows us by."""

    jid: str
    secret: str
    server: tuple[str, int]

    @classmethod
    def of(cls, settings: WithXmpp) -> ServerPlace:
        """Return the configured one.

        Raises:
            ConfigError: there is no secret, or `server` is not host:port.

        """
        return cls(settings.jid, settings.shared_secret(), settings.address())


class XmppTerms(Struct, frozen=True, kw_only=True):
    """The settings that a reload can change."""

    settle_by_get: bool = True
    auto_creates: bool = True
    ping_after: float = 0.0
    """Seconds without a stanza after which a worker that holds items is pinged; 0: never."""
    repeating: Repeating | None = USUAL
    """How unanswered deliveries at a level are repeated; None: all deliveries are messages."""
    qos: QosSettings = QosSettings()
    """`events_to` has the administrators, unless others are named."""

    @classmethod
    def of(cls, settings: WithXmpp) -> XmppTerms:
        """Return the configured ones."""
        qos = settings.qos
        return cls(
            settle_by_get=settings.settle_by_get,
            auto_creates=settings.auto_creates,
            ping_after=settings.ping_after,
            repeating=qos.repeating(),
            qos=replace(qos, events_to=qos.events_to or settings.administrators()),
        )


DEFAULTS: Final = XmppTerms()
