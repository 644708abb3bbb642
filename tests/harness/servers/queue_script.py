"""A queue as a publisher sees it: it accepts publishes, absorbs repeated ids, answers disco.

It uses `harness.servers.scripted_component.fake_component` behind a real server. Its reaction to a publish can be replaced
by `answer`, which sees the item's id and returns the inner XML of an answer: None means success, "" means no answer at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import quoteattr

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Callable

DISCO: Final = "{http://jabber.org/protocol/disco#info}"
PUBSUB: Final = "{http://jabber.org/protocol/pubsub}"
QUEUEING: Final = "urn:xmpp:pubsub:queueing:0"
STANZAS: Final = "urn:ietf:params:xml:ns:xmpp-stanzas"

META_DATA: Final = (
    "<x xmlns='jabber:x:data' type='result'>"
    "<field var='FORM_TYPE' type='hidden'>"
    "<value>http://jabber.org/protocol/pubsub#meta-data</value></field>"
    "<field var='pubsub#publish_model'><value>{}</value></field></x>"
)


def error(kind: str, condition: str) -> str:
    """Return the error child of a refusal."""
    return f"<error type='{kind}'><{condition} xmlns='{STANZAS}'/></error>"


@dataclass
class QueueScript:
    """The received items, and the answers."""

    queues: tuple[str, ...] = ("jobs", "other")
    plain: tuple[str, ...] = ("news",)
    publish_model: str = "publishers"
    standing: str | None = None
    """The affiliation of every account with every node; None: the service does not report it."""
    answer: Callable[[str], str | None] = lambda _id: None
    items: dict[str, dict[str, str]] = field(default_factory=dict)
    meta: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: int = 0
    publishes: int = 0
    """Items, refused ones too."""
    publishers: set[str] = field(default_factory=set)

    def __call__(self, stanza: etree._Element) -> list[str]:
        """Answer one stanza."""
        if stanza.get("type") not in {"get", "set"}:
            return []
        pubsub = stanza.find(f"{PUBSUB}pubsub")
        if pubsub is None:
            inner: str | None = self._disco(stanza.find(f"{DISCO}query"))
        elif (asked := pubsub.find(f"{PUBSUB}affiliations")) is not None:
            inner = self._affiliation(asked.get("node"))
        else:
            inner = self._publish(pubsub, stanza.get("from"))
        if inner == "":
            return []
        kind = "error" if inner and inner.startswith("<error") else "result"
        address = f"from={quoteattr(stanza.get('to'))} to={quoteattr(stanza.get('from'))}"
        return [f"<iq type='{kind}' id={quoteattr(stanza.get('id'))} {address}>{inner or ''}</iq>"]

    def _disco(self, query: etree._Element) -> str:
        node = query.get("node")
        if node is not None and node not in self.queues + self.plain:
            return error("cancel", "item-not-found")
        feature = "" if node in self.plain else f"<feature var='{QUEUEING}'/>"
        form = "" if node is None else META_DATA.format(self.publish_model)
        return f"<query xmlns='http://jabber.org/protocol/disco#info'>{feature}{form}</query>"

    def _affiliation(self, node: str) -> str:
        if self.standing is None:
            return error("cancel", "feature-not-implemented")
        inner = f"<affiliation node={quoteattr(node)} affiliation='{self.standing}'/>"
        return (
            "<pubsub xmlns='http://jabber.org/protocol/pubsub'>"
            f"<affiliations node={quoteattr(node)}>{inner}</affiliations></pubsub>"
        )

    def _publish(self, pubsub: etree._Element, publisher: str) -> str | None:
        """Accept all items or none; the first answer that is not a success is that to the request."""
        publish = pubsub.find(f"{PUBSUB}publish")
        items = publish.findall(f"{PUBSUB}item")
        self.publishers.add(publisher)
        self.requests += 1
        for item in items:
            self.publishes += 1
            inner = self.answer(item.get("id"))
            if inner is not None:
                return inner
        queue = self.items.setdefault(publish.get("node"), {})
        for item in items:
            payload = etree.tostring(item[0], method="c14n", exclusive=True)
            queue[item.get("id")] = payload.decode()
            for meta in pubsub.iter("{urn:x-pubqueue:0}meta"):
                self.meta[item.get("id")] = dict(meta.attrib)
        return None
