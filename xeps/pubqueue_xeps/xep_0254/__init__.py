"""XEP-0254: PubSub Queueing, for slixmpp."""

from slixmpp.plugins.base import register_plugin

from pubqueue_xeps.xep_0254.queueing import XEP_0254, QueueSubscription, queueing

register_plugin(XEP_0254)

__all__ = ["XEP_0254", "QueueSubscription", "queueing"]
