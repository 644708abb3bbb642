"""The elements of XEP-0254, and those of `urn:x-pubqueue:0` that go with them, for slixmpp."""

# ruff: noqa: RUF012 - slixmpp declares its interfaces as mutable class attributes

from slixmpp import Iq, Message
from slixmpp.plugins.xep_0060.stanza import EventItems, Item, Pubsub
from slixmpp.xmlstream import ElementBase, register_stanza_plugin

from pubqueue_xeps.ns import PUBQUEUE, QUEUEING, QUEUEING_SHORT


class Unlock(ElementBase):
    """`pubsub/unlock[@node]/item[@id]`: the request (XEP-0254 section 2.4)."""

    name = "unlock"
    namespace = QUEUEING
    plugin_attrib = "unlock"
    interfaces = {"node"}


class UnlockItem(ElementBase):
    """The item of a request to unlock; in example 10 it is in the namespace of its parent."""

    name = "item"
    namespace = QUEUEING
    plugin_attrib = "item"
    interfaces = {"id"}


class EventUnlock(ElementBase):
    """`event/items[@node]/unlock[@id]`: the notification (XEP-0254 section 2.4)."""

    name = "unlock"
    namespace = QUEUEING
    plugin_attrib = "unlock"
    interfaces = {"id"}


class EventUnlockShort(EventUnlock):
    """The same in the namespace which example 11 prints."""

    namespace = QUEUEING_SHORT
    plugin_attrib = "unlock_short"


class Lock(ElementBase):
    """`message/lock`: under which lock an item is delivered."""

    name = "lock"
    namespace = PUBQUEUE
    plugin_attrib = "queue_lock"
    interfaces = {"token", "deadline", "attempt", "published"}


class UnlockOutcome(ElementBase):
    """`pubsub/outcome` beside `unlock`: whose fault it is that the item is given back."""

    name = "outcome"
    namespace = PUBQUEUE
    plugin_attrib = "queue_outcome"
    interfaces = {"type", "delay", "reason"}


class Touch(ElementBase):
    """`iq/touch[@node]/item[@id]`: extend a lock; the answer has the new deadlines."""

    name = "touch"
    namespace = PUBQUEUE
    plugin_attrib = "queue_touch"
    interfaces = {"node", "seconds"}


class TouchItem(ElementBase):
    """The item whose lock is extended."""

    name = "item"
    namespace = PUBQUEUE
    plugin_attrib = "item"
    interfaces = {"id", "deadline"}


class Meta(ElementBase):
    """`pubsub/meta` beside `publish`: when, how urgent and how long, in seconds."""

    name = "meta"
    namespace = PUBQUEUE
    plugin_attrib = "queue_meta"
    interfaces = {"delay", "priority", "ttl"}


# slixmpp keeps these in the classes, for every client and component of the process.
register_stanza_plugin(Pubsub, Unlock)
register_stanza_plugin(Unlock, UnlockItem, iterable=True)
register_stanza_plugin(Pubsub, Meta)
register_stanza_plugin(Pubsub, UnlockOutcome)
register_stanza_plugin(Iq, Touch)
register_stanza_plugin(Touch, TouchItem, iterable=True)
register_stanza_plugin(Message, Lock)
# Not iterable: slixmpp's xep_0060 would report an unlocked item as published.
register_stanza_plugin(EventItems, EventUnlock)
register_stanza_plugin(EventItems, EventUnlockShort)

__all__ = [
    "EventUnlock",
    "EventUnlockShort",
    "Item",
    "Lock",
    "Meta",
    "Touch",
    "TouchItem",
    "Unlock",
    "UnlockItem",
    "UnlockOutcome",
]
