"""Service discovery (XEP-0030) of the service and its nodes."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.render import pages, replies
from pubqueue.faces.xmpp.xml import forms
from pubqueue.faces.xmpp.xml.forms import cut
from pubqueue.faces.xmpp.xml.stanza import attribute
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.model.replies import Described, Listed

PUBSUB_FEATURES: Final = (
    "access-authorize",
    "access-open",
    "access-whitelist",
    "config-node",
    "config-node-max",
    "create-and-configure",
    "create-nodes",
    "delete-items",
    "delete-nodes",
    "get-pending",
    "instant-nodes",
    "item-ids",
    "leased-subscription",
    "manage-subscriptions",
    "member-affiliation",
    "meta-data",
    "modify-affiliations",
    "multi-items",
    "multi-subscribe",
    "outcast-affiliation",
    "persistent-items",
    "presence-notifications",
    "publish",
    "publish-node-full",
    "publish-only-affiliation",
    "publish-options",
    "publisher-affiliation",
    "purge-nodes",
    "retract-items",
    "retrieve-affiliations",
    "retrieve-default",
    "retrieve-default-sub",
    "retrieve-items",
    "retrieve-subscriptions",
    "rsm",
    "subscribe",
    "subscription-notifications",
    "subscription-options",
)
"""The features of XEP-0060 1.30 section 10 that the service supports."""

MULTI_SUBSCRIBE: Final = f"{ns.PUBSUB}#multi-subscribe"
"""The feature of nodes with this setting; the service has it too, because owners can turn it on."""

AUTO_CREATE: Final = f"{ns.PUBSUB}#auto-create"
"""A feature that an operator can turn off."""

FEATURES: Final = (
    ns.DISCO_INFO,
    ns.DISCO_ITEMS,
    ns.PUBSUB,
    *(f"{ns.PUBSUB}#{feature}" for feature in PUBSUB_FEATURES),
    ns.QUEUEING,
    ns.PUBQUEUE,
    replies.FEATURE,
    replies.PROGRESS,
    replies.HOLD,
    replies.THEN,
    replies.JOINS,
    *pages.FEATURES,
    ns.COMMANDS,
    ns.RSM,
    ns.FILTER,
    ns.ORDER_BY,
    f"{ns.ORDER_BY}@{ns.PUBSUB}",
    ns.SHIM,
    ns.PING,
    ns.VERSION,
    ns.TIME,
)


def _query(namespace: str, node: str | None, inner: str) -> str:
    words = "" if node is None else f' node="{attribute(node)}"'
    return f'<query xmlns="{namespace}"{words}>{inner}</query>'


def _features(names: Iterable[str]) -> str:
    return "".join(f'<feature var="{attribute(name)}"/>' for name in names)


CAPABILITIES_NODE: Final = "urn:x-pubqueue:0#service"
"""The program's URI in entity capabilities (XEP-0115)."""

ROSTER_FEATURES: Final = (f"{ns.PUBSUB}#access-presence", f"{ns.PUBSUB}#access-roster")
"""Features for accounts whose server lets the service read rosters."""


def features_for(*, auto_creates: bool, rosters: bool, carries: bool) -> tuple[str, ...]:
    """Return the features of the service for an account. `carries` is whether Quality of Service is offered."""
    return (
        *FEATURES,
        *(ROSTER_FEATURES if rosters else ()),
        *((AUTO_CREATE,) if auto_creates else ()),
        *((ns.QOS,) if carries else ()),
    )


def service_info(features: Iterable[str], node: str | None = None) -> str:
    """Return the disco#info of the service (XEP-0060 5.1, XEP-0254 3)."""
    identity = '<identity category="pubsub" type="service" name="pubqueue"/>'
    return _query(ns.DISCO_INFO, node, identity + _features(features))


def verification(features: Iterable[str]) -> str:
    """Return the hash of the service's identity and features (XEP-0115 5.1)."""
    parts = ("pubsub/service//pubqueue", *sorted(features), "")
    return b64encode(sha1("<".join(parts).encode(), usedforsecurity=False).digest()).decode()


def node_of(features: Iterable[str]) -> str:
    """Return the disco node for the announced capabilities (XEP-0115 6.2)."""
    return f"{CAPABILITIES_NODE}#{verification(features)}"


def capabilities(features: Iterable[str]) -> str:
    """Return the element that announces the capabilities in presence (XEP-0115)."""
    words = f'hash="sha-1" node="{CAPABILITIES_NODE}" ver="{verification(features)}"'
    return f'<c xmlns="{ns.CAPS}" {words}/>'


def node_info(described: Described, _service: str) -> bytes:
    """Return the disco#info of a node (XEP-0060 5.3, 5.4), with features for a queue (XEP-0254 row 35) and for a node with a log."""
    node = described.node
    identity = '<identity category="pubsub" type="leaf"/>'
    features = [ns.DISCO_INFO, ns.PUBSUB]
    if node.config.queueing:
        features.append(ns.QUEUEING)
    elif node.config.multi_subscribe:
        features.append(MULTI_SUBSCRIBE)
    if node.config.event_log:
        features.append(pages.EVENTS)
    inner = identity + _features(features) + forms.meta_data(described)
    return _query(ns.DISCO_INFO, node.name, inner).encode()


def items(listed: Listed, service: str) -> bytes:
    """Return nodes (XEP-0060 5.2) or a node's items (5.5), which have no node attribute."""
    jid = attribute(service)
    if listed.node is not None:
        entries = [f'<item jid="{jid}" name="{attribute(name)}"/>' for name, _ in listed.entries]
    else:
        entries = [
            f'<item jid="{jid}" node="{attribute(name)}"'
            + (f' name="{attribute(title)}"/>' if title else "/>")
            for name, title in listed.entries
        ]
    names = [name for name, _ in listed.entries]
    shown, which = cut([entry.encode() for entry in entries], names, listed.part)
    return _query(ns.DISCO_ITEMS, listed.node, "".join(entries[shown]) + which).encode()
