"""The namespaces of this face, and how a parsed tag is written: `namespace name`."""

from __future__ import annotations

from typing import Final

COMPONENT: Final = "jabber:component:accept"
CLIENT: Final = "jabber:client"
STANZAS: Final = "urn:ietf:params:xml:ns:xmpp-stanzas"
XML: Final = "http://www.w3.org/XML/1998/namespace"
PUBSUB: Final = "http://jabber.org/protocol/pubsub"
OWNER: Final = "http://jabber.org/protocol/pubsub#owner"
EVENT: Final = "http://jabber.org/protocol/pubsub#event"
ERRORS: Final = "http://jabber.org/protocol/pubsub#errors"
NODE_CONFIG: Final = "http://jabber.org/protocol/pubsub#node_config"
PUBLISH_OPTIONS: Final = "http://jabber.org/protocol/pubsub#publish-options"
SUBSCRIBE_OPTIONS: Final = "http://jabber.org/protocol/pubsub#subscribe_options"
SUBSCRIBE_AUTHORIZATION: Final = "http://jabber.org/protocol/pubsub#subscribe_authorization"
META_DATA: Final = "http://jabber.org/protocol/pubsub#meta-data"
QUEUEING: Final = "urn:xmpp:pubsub:queueing:0"
OURS: Final = "urn:x-pubqueue:0"
DISCO_INFO: Final = "http://jabber.org/protocol/disco#info"
DISCO_ITEMS: Final = "http://jabber.org/protocol/disco#items"
DATA: Final = "jabber:x:data"
ROSTER: Final = "jabber:iq:roster"
PRIVILEGE: Final = ("urn:xmpp:privilege:1", "urn:xmpp:privilege:2")
RSM: Final = "http://jabber.org/protocol/rsm"
DELAY: Final = "urn:xmpp:delay"
SHIM: Final = "http://jabber.org/protocol/shim"
HINTS: Final = "urn:xmpp:hints"
PING: Final = "urn:xmpp:ping"
ORDER_BY: Final = "urn:xmpp:order-by:1"
FILTER: Final = "urn:xmpp:pubsub-filter:0"
VERSION: Final = "jabber:iq:version"
COMMANDS: Final = "http://jabber.org/protocol/commands"
TIME: Final = "urn:xmpp:time"
JSON: Final = "urn:xmpp:json:0"


def tag(namespace: str, name: str) -> str:
    """Return the tag as the stream parser writes it."""
    return f"{namespace} {name}"
