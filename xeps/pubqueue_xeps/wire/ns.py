"""The XML namespaces that the client side speaks."""

from typing import Final

CLIENT: Final = "jabber:client"
DATA: Final = "jabber:x:data"
DISCO_INFO: Final = "http://jabber.org/protocol/disco#info"
SHIM: Final = "http://jabber.org/protocol/shim"
DELAY: Final = "urn:xmpp:delay"
HEADERS: Final = "http://jabber.org/protocol/shim"
"""XEP-0131."""
JSON: Final = "urn:xmpp:json:0"
"""XEP-0335."""
PING: Final = "urn:xmpp:ping"
TIME: Final = "urn:xmpp:time"
STANZAS: Final = "urn:ietf:params:xml:ns:xmpp-stanzas"

PUBSUB: Final = "http://jabber.org/protocol/pubsub"
PUBSUB_EVENT: Final = "http://jabber.org/protocol/pubsub#event"
SUBSCRIBE_OPTIONS: Final = "http://jabber.org/protocol/pubsub#subscribe_options"

QUEUEING: Final = "urn:xmpp:pubsub:queueing:0"
QUEUEING_SHORT: Final = "urn:xmpp:queueing:0"
"""What XEP-0254 example 11 prints; accepted in events, never sent."""

PUBQUEUE: Final = "urn:x-pubqueue:0"
"""This project's own extensions: lock tokens, touch, outcomes, publish metadata."""
