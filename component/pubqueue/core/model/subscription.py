"""A subscription, and several of one JID. Values only: nothing here decides anything."""

from __future__ import annotations

from msgspec import Struct

from pubqueue.core.addresses import Jid  # noqa: TC001  # msgspec reads it
from pubqueue.core.model.choices import Level, SubscriptionState
from pubqueue.core.model.names import Millis, NodeName  # noqa: TC001  # msgspec reads it


class Terms(Struct, frozen=True, gc=False):
    """One of several subscriptions of a JID to a node: the fields that it does not share with the others (XEP-0060 6.1.6)."""

    subid: str
    deliver: bool = True
    expire: Millis | None = None
    remind: Millis | None = None
    temporary: bool = False

    @property
    def ends_next(self) -> Millis | None:
        """When its lease needs a reminder or ends."""
        return self.expire if self.remind is None else self.remind


class Subscription(Struct, frozen=True, gc=False):
    """One JID's subscription to one node, with its window (XEP-0254 2.1) and its options (XEP-0060 6.3).

    It is `available` while items or notifications can be delivered: never while it is pending, or has
    deliveries switched off. A lease ends at `expire`; the reminder is sent at `remind`, None once it is
    sent. A `temporary` subscription ends when its JID becomes unavailable (XEP-0060 12.5).

    If a JID has `several` subscriptions to a node, they are in this one row, the oldest first, and the
    row's other fields are what holds for all of them: `core.multi_subscription` merges and splits them.
    """

    node: NodeName
    jid: Jid
    subid: str
    queue_requests: int
    in_flight: int = 0
    last_served: int = 0
    available: bool = True
    unanswered: int = 0
    """Deliveries in a row that bounced, or timed out, with no other sign of life from the subscriber since."""
    state: SubscriptionState = SubscriptionState.SUBSCRIBED
    deliver: bool = True
    expire: Millis | None = None
    remind: Millis | None = None
    temporary: bool = False
    lock_timeout: int | None = None
    """Seconds for which it may hold an item, if that is less than the queue allows."""
    qos: Level | None = None
    """The level of its deliveries; None for that of the queue."""
    several: tuple[Terms, ...] = ()
    """Two or more; or one, if this is one of several taken by itself. () if the JID has no other."""

    @property
    def listens(self) -> bool:
        """Whether it can be notified, and its options ask for it."""
        return self.deliver and self.state is SubscriptionState.SUBSCRIBED

    @property
    def ends_next(self) -> Millis | None:
        """When its lease needs a reminder or ends."""
        return self.expire if self.remind is None else self.remind
