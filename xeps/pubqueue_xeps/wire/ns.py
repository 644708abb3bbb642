"""The XML namespaces that this library and the service use."""

from typing import Final

# XMPP: RFC 6120, XEP-0114
CAPS: Final = "http://jabber.org/protocol/caps"
CLIENT: Final = "jabber:client"
COMPONENT: Final = "jabber:component:accept"
STANZAS: Final = "urn:ietf:params:xml:ns:xmpp-stanzas"
XML: Final = "http://www.w3.org/XML/1998/namespace"

# publish-subscribe: XEP-0060, 0248, 0254
PUBSUB: Final = "http://jabber.org/protocol/pubsub"
OWNER: Final = "http://jabber.org/protocol/pubsub#owner"
EVENT: Final = "http://jabber.org/protocol/pubsub#event"
ERRORS: Final = "http://jabber.org/protocol/pubsub#errors"
NODE_CONFIG: Final = "http://jabber.org/protocol/pubsub#node_config"
PUBLISH_OPTIONS: Final = "http://jabber.org/protocol/pubsub#publish-options"
SUBSCRIBE_OPTIONS: Final = "http://jabber.org/protocol/pubsub#subscribe_options"
SUBSCRIBE_AUTHORIZATION: Final = "http://jabber.org/protocol/pubsub#subscribe_authorization"
META_DATA: Final = "http://jabber.org/protocol/pubsub#meta-data"
FILTER: Final = "urn:xmpp:pubsub-filter:0"
ORDER_BY: Final = "urn:xmpp:order-by:1"
QUEUEING: Final = "urn:xmpp:pubsub:queueing:0"
QUEUEING_SHORT: Final = "urn:xmpp:queueing:0"
"""What XEP-0254 example 11 prints; accepted in events, never sent."""

# parts of stanzas, and general requests
COMMANDS: Final = "http://jabber.org/protocol/commands"
DATA: Final = "jabber:x:data"
DELAY: Final = "urn:xmpp:delay"
DISCO_INFO: Final = "http://jabber.org/protocol/disco#info"
DISCO_ITEMS: Final = "http://jabber.org/protocol/disco#items"
EVENT_LOG: Final = "urn:xmpp:eventlog"
HINTS: Final = "urn:xmpp:hints"
JSON: Final = "urn:xmpp:json:0"
PING: Final = "urn:xmpp:ping"
PRIVILEGE: Final = ("urn:xmpp:privilege:1", "urn:xmpp:privilege:2")
QOS: Final = "urn:xmpp:qos"
ROSTER: Final = "jabber:iq:roster"
RSM: Final = "http://jabber.org/protocol/rsm"
SHIM: Final = "http://jabber.org/protocol/shim"
TIME: Final = "urn:xmpp:time"
VERSION: Final = "jabber:iq:version"

PUBQUEUE: Final = "urn:x-pubqueue:0"
"""This project's own extensions: lock tokens, touch, outcomes, publish metadata, transactions."""

PAYLOAD: Final = "urn:x-pubqueue:data:0"
"""The element that carries text or bytes with their content type."""


def tag(namespace: str, name: str) -> str:
    """Return a tag as the service's stream parser writes it: `namespace name`."""
    return f"{namespace} {name}"
