"""Quality of Service (urn:xmpp:qos), for slixmpp."""

from slixmpp.plugins.base import register_plugin

from pubqueue_xeps.xep_qos.levels import Level, Pending, Retry, Sent, Step
from pubqueue_xeps.xep_qos.plugin import XEP_QOS, qos
from pubqueue_xeps.xep_qos.receiver import Limits

register_plugin(XEP_QOS)

__all__ = ["XEP_QOS", "Level", "Limits", "Pending", "Retry", "Sent", "Step", "qos"]
