"""The nouns of the queue, as the XEPs spell them. Values only: nothing here decides anything."""

from pubqueue.core.addresses import Jid
from pubqueue.core.model.choices import (
    AccessModel,
    Affiliation,
    AtExpiry,
    ItemReply,
    Level,
    NodeFull,
    NotificationType,
    PublishModel,
    SendLast,
    State,
    SubscriptionState,
)
from pubqueue.core.model.item import DeadLetter, Draft, Item
from pubqueue.core.model.names import (
    MAX_ID_LENGTH,
    NO_TIME,
    Headers,
    ItemId,
    Millis,
    NodeName,
    digest,
    later,
    mark_of,
    seconds,
)
from pubqueue.core.model.node import Feed, Node, NodeConfig
from pubqueue.core.model.principal import Contact, Principal
from pubqueue.core.model.subscription import Subscription, Terms

__all__ = [
    "MAX_ID_LENGTH",
    "NO_TIME",
    "AccessModel",
    "Affiliation",
    "AtExpiry",
    "Contact",
    "DeadLetter",
    "Draft",
    "Feed",
    "Headers",
    "Item",
    "ItemId",
    "ItemReply",
    "Jid",
    "Level",
    "Millis",
    "Node",
    "NodeConfig",
    "NodeFull",
    "NodeName",
    "NotificationType",
    "Principal",
    "PublishModel",
    "SendLast",
    "State",
    "Subscription",
    "SubscriptionState",
    "Terms",
    "digest",
    "later",
    "mark_of",
    "seconds",
]
