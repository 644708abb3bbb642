"""Changes of subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Level, Millis, NodeName, Subscription, Terms


class AddSubscription(Struct, frozen=True, gc=False):
    """A new subscription."""

    subscription: Subscription


class AddAnother(Struct, frozen=True, gc=False):
    """One more subscription of a JID that subscribes already."""

    node: NodeName
    jid: Jid
    terms: Terms


class SetWindow(Struct, frozen=True, gc=False):
    """Another window for the subscriber, which is here to take items."""

    node: NodeName
    jid: Jid
    queue_requests: int


class SetLockTimeout(Struct, frozen=True, gc=False):
    """From now on the subscriber's locks last up to this many seconds; None for as long as the queue allows."""

    node: NodeName
    jid: Jid
    lock_timeout: int | None


class SetLevel(Struct, frozen=True, gc=False):
    """From now on deliveries to the subscriber are of this level; None for that of the queue."""

    node: NodeName
    jid: Jid
    qos: Level | None


class SetTerms(Struct, frozen=True, gc=False):
    """Other options of a subscription (XEP-0060 6.3): whether anything is delivered, and when it ends.

    `subid` names the subscription if its JID has several.
    """

    node: NodeName
    jid: Jid
    deliver: bool
    expire: Millis | None
    remind: Millis | None
    temporary: bool
    subid: str | None = None


class Approve(Struct, frozen=True, gc=False):
    """A pending subscription is active from now on (XEP-0060 8.6)."""

    node: NodeName
    jid: Jid


class SetAvailable(Struct, frozen=True, gc=False):
    """Whether the subscriber can receive items at present: it became available, or left."""

    node: NodeName
    jid: Jid
    available: bool


class NoteUnanswered(Struct, frozen=True, gc=False):
    """A number of deliveries to the subscriber in a row bounced or timed out.

    `silenced` means that there were too many: the subscriber gets nothing more until it shows
    activity. With `until` this process delivers nothing to it before then; `until` is not stored.
    """

    node: NodeName
    jid: Jid
    unanswered: int
    silenced: bool = False
    until: Millis | None = None


class EndSubscription(Struct, frozen=True, gc=False):
    """The subscription ends; locks held under it stay (XEP-0254 4: unsubscribe, then unlock).

    If its JID has several, it is the one of this `subid`, or all of them.
    """

    node: NodeName
    jid: Jid
    subid: str | None = None


class BeginReview(Struct, frozen=True, gc=False):
    """The subscribers of the node have to be reviewed, because some of them may have to go."""

    node: NodeName


class EndReview(Struct, frozen=True, gc=False):
    """The subscribers of the node have been reviewed."""

    node: NodeName


class EndSubscriptions(Struct, frozen=True, gc=False):
    """The subscriptions of exactly these JIDs to the node end; locks held under them stay."""

    node: NodeName
    jids: tuple[Jid, ...]


class Recount(Struct, frozen=True, gc=False):
    """Only the reachability of the subscription's address may have changed: count its window again."""

    node: NodeName
    jid: Jid


SubscriptionChange = (
    AddSubscription
    | AddAnother
    | SetWindow
    | SetLockTimeout
    | SetLevel
    | SetTerms
    | Approve
    | SetAvailable
    | NoteUnanswered
    | EndSubscription
)

"""A change of one subscription: `after` returns it as it is after the change."""

Change = SubscriptionChange | EndSubscriptions | BeginReview | EndReview | Recount
