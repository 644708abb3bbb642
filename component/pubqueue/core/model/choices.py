"""States, models and other choices, as the XEPs spell them. Values only: nothing here decides anything."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class State(StrEnum):
    """The state of an item. An item that is gone has no row and so no state."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    QUEUED = "queued"
    LOCKED = "locked"
    DELAYED = "delayed"
    DEAD = "dead"
    DONE = "done"


@unique
class Affiliation(StrEnum):
    """The affiliation of a bare JID with a node (XEP-0060 4.1)."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    OWNER = "owner"
    PUBLISHER = "publisher"
    PUBLISH_ONLY = "publish-only"
    MEMBER = "member"
    NONE = "none"
    OUTCAST = "outcast"


@unique
class AccessModel(StrEnum):
    """The access models (XEP-0060 4.5); for presence and roster the owners' rosters decide, if they can be read."""

    OPEN = "open"
    PRESENCE = "presence"
    ROSTER = "roster"
    AUTHORIZE = "authorize"
    WHITELIST = "whitelist"


@unique
class SubscriptionState(StrEnum):
    """The state of a subscription (XEP-0060 4.2); there is no row for NONE."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    SUBSCRIBED = "subscribed"
    PENDING = "pending"
    NONE = "none"


@unique
class PublishModel(StrEnum):
    """The publish models (XEP-0060 16.4.4)."""

    PUBLISHERS = "publishers"
    SUBSCRIBERS = "subscribers"
    OPEN = "open"


@unique
class NodeFull(StrEnum):
    """What a full node does with a new item (XEP-0060 16.4.4, publish_node_full)."""

    RETRACT_OLDEST = "retract-oldest"
    DISCARD_OLDEST = "discard-oldest"
    REJECT = "reject"


@unique
class AtExpiry(StrEnum):
    """What happens to an expired item of a queue."""

    DEAD = "dead"
    DROP = "drop"
    TRUNCATE = "truncate"


@unique
class SendLast(StrEnum):
    """When a subscriber is sent the last item of a node (XEP-0060 16.4.4)."""

    NEVER = "never"
    ON_SUB = "on_sub"


@unique
class NotificationType(StrEnum):
    """The kind of message that notifies subscribers of a node (XEP-0060 12.7)."""

    HEADLINE = "headline"
    NORMAL = "normal"


@unique
class Level(StrEnum):
    """How a delivery is carried: as a message, or in requests that are answered (urn:xmpp:qos)."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    ASSURED = "assured"


@unique
class ItemReply(StrEnum):
    """The address for replies to an item: with `publisher` the service adds it (XEP-0060 12.17)."""

    PUBLISHER = "publisher"
    NONE = "none"
