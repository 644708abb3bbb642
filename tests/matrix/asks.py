"""What the columns of the tables stand for: the request, and how its answer is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from lxml.etree import _Element

PUBSUB: Final = "http://jabber.org/protocol/pubsub"
OURS: Final = "urn:x-pubqueue:0"
DISCO: Final = "http://jabber.org/protocol/disco"
QUEUEING: Final = "urn:xmpp:pubsub:queueing:0"
FOREIGN, OWN = "foreign", "own"
"""The two items that are in every node: an owner's, and the principal's."""


def result(_answer: _Element, _node: str) -> str:
    """Read an answer in which nothing but the success matters."""
    return "ok"


def state(answer: _Element, _node: str) -> str:
    """Read what has become of the wish to subscribe."""
    (subscription,) = answer.findall(".//{*}subscription")
    said = subscription.get("subscription")
    return "ok" if said == "subscribed" else said


def _shown(ids: set[str | None]) -> str:
    return {2: "ok", 0: "nothing"}.get(len(ids & {FOREIGN, OWN}), f"some: {ids}")


def items(answer: _Element, _node: str) -> str:
    """Read which of the two items are shown."""
    return _shown({item.get("id") for item in answer.findall(".//{*}item")})


def names(answer: _Element, _node: str) -> str:
    """Read which of the two items are named in disco#items."""
    return _shown({item.get("name") for item in answer.findall(".//{*}item")})


def listed(answer: _Element, node: str) -> str:
    """Read whether the node is among those of the service."""
    there = node in {item.get("node") for item in answer.findall(".//{*}item")}
    return "ok" if there else "nothing"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: the type of the IQ, its child with `{node}` and `{jid}` left open, how the result is read.

    `feature` is what the service has to say it can; else it refuses by that name.
    """

    type: str
    child: str
    read: Callable[[_Element, str], str] = result
    feature: str = ""


def form(name: str, fields: dict[str, str]) -> str:
    """Return a form that is filled in."""
    inside = "".join(f"<field var='{k}'><value>{v}</value></field>" for k, v in fields.items())
    kind = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#{name}</value></field>"
    return f"<x xmlns='jabber:x:data' type='submit'>{kind}{inside}</x>"


def plain(inner: str) -> str:
    """Return a request of everybody's."""
    return f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"


def owner(inner: str) -> str:
    """Return a request of an owner's."""
    return f"<pubsub xmlns='{PUBSUB}#owner'>{inner}</pubsub>"


def publish(item: str) -> str:
    """Return the publishing of an item."""
    inner = f"<item id='{item}'><work xmlns='urn:example:work'/></item>"
    return plain(f"<publish node='{{node}}'>{inner}</publish>")


def retract(item: str) -> str:
    """Return the retracting of an item."""
    return plain(f"<retract node='{{node}}'><item id='{item}'/></retract>")


WINDOW: Final = f"<options>{form('subscribe_options', {'pubsub#queue_requests': '3'})}</options>"
SUBSCRIBE: Final = "<subscribe node='{node}' jid='{jid}'/>"
SOMEBODY: Final = "somebody@localhost"
TITLE: Final = form("node_config", {"pubsub#title": "another"})
UNLOCK: Final = f"<unlock xmlns='{QUEUEING}' node='{{node}}'><item id='{FOREIGN}'/></unlock>"
BOSS: Final = "boss@localhost/desk"
END: Final = f"<subscription jid='{BOSS}' subscription='none'/>"
MANAGE: Final = "manage-subscriptions"

# fmt: off
ASKS: Final = {
    "subscribe":         Ask("set", plain(SUBSCRIBE + "{window}"), state),
    "unsubscribe":       Ask("set", plain("<unsubscribe node='{node}' jid='{jid}'/>")),
    "options":           Ask("get", plain("<options node='{node}' jid='{jid}'/>")),
    "items":             Ask("get", plain("<items node='{node}'/>"), items),
    "item-ids":          Ask("get", f"<query xmlns='{DISCO}#items' node='{{node}}'/>", names),
    "info":              Ask("get", f"<query xmlns='{DISCO}#info' node='{{node}}'/>"),
    "listed":            Ask("get", f"<query xmlns='{DISCO}#items'/>", listed),
    "mine":              Ask("get", plain("<subscriptions node='{node}'/>")),
    "my-affiliation":    Ask("get", plain("<affiliations node='{node}'/>")),

    "publish":           Ask("set", publish("new")),
    "retract-own":       Ask("set", retract(OWN)),
    "retract-foreign":   Ask("set", retract(FOREIGN)),
    "retract-absent":    Ask("set", retract("absent")),
    "unlock":            Ask("set", plain(UNLOCK)),

    "configure-get":     Ask("get", owner("<configure node='{node}'/>")),
    "configure-set":     Ask("set", owner(f"<configure node='{{node}}'>{TITLE}</configure>")),
    "purge":             Ask("set", owner("<purge node='{node}'/>")),
    "delete":            Ask("set", owner("<delete node='{node}'/>")),
    "affiliations-get":  Ask("get", owner("<affiliations node='{node}'/>")),
    "affiliations-set":  Ask("set", owner(f"<affiliations node='{{node}}'><affiliation jid='{SOMEBODY}' affiliation='member'/></affiliations>")),
    "subscriptions-get": Ask("get", owner("<subscriptions node='{node}'/>"), feature=MANAGE),
    "subscriptions-set": Ask("set", owner(f"<subscriptions node='{{node}}'>{END}</subscriptions>"), feature=MANAGE),
    "redrive":           Ask("set", f"<redrive xmlns='{OURS}' node='{{node}}'/>"),
    "read-items":        Ask("get", f"<items xmlns='{OURS}' node='{{node}}'/>"),
    "read-events":       Ask("get", f"<events xmlns='{OURS}' node='{{node}}'/>"),
}
# fmt: on
