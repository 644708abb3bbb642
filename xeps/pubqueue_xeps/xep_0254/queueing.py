"""XEP-0254: PubSub Queueing, the subscriber's side, as a slixmpp plugin.

Events for queues that were subscribed with `subscribe_queue`, each with a frozen dataclass: `queue_item`,
`queue_retract`, `queue_unlock`, `queue_purge` and `queue_delete`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from uuid import uuid4

from slixmpp.exceptions import IqError
from slixmpp.plugins import BasePlugin
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from pubqueue_xeps.client.ask import ask, ask_about
from pubqueue_xeps.errors import ItemDead, NotAQueue, Refused
from pubqueue_xeps.log import log
from pubqueue_xeps.wire import ns, refusals
from pubqueue_xeps.wire.ns import PUBQUEUE, QUEUEING, QUEUEING_SHORT, SHIM
from pubqueue_xeps.wire.publication import publication
from pubqueue_xeps.wire.requests import IqRequest, pages, publishing
from pubqueue_xeps.wire.requests import queueing as words
from pubqueue_xeps.wire.requests.queueing import ItemRequests, deadline, fault
from pubqueue_xeps.wire.times import read_time, until
from pubqueue_xeps.wire.waits import NOTHING, Waited, read_wait

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.wire.refusals import Outcome
    from pubqueue_xeps.wire.times import When


__all__ = [
    "XEP_0254",
    "Deleted",
    "Delivered",
    "Lock",
    "Purged",
    "QueueSubscription",
    "Retracted",
    "Unlocked",
    "queueing",
]

# The events of a queue, read from bare elements (sections 2.2 to 2.4).

Place = tuple[str, str]
"""A node and the id of an item in it."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock under which an item was delivered; `token` only increases, `failed` counts failures so far."""

    token: int
    deadline: datetime
    attempt: int
    published: datetime | None
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Delivered:
    """An item is locked to us. A service that does not know `urn:x-pubqueue:0` sends no `lock`.

    `headers` are the publisher's (XEP-0131); for a repeated name, the last value.
    """

    service: str
    node: str
    id: str
    payload: Element | None
    publisher: str | None
    lock: Lock | None
    headers: dict[str, str] = field(default_factory=dict)
    wait: Waited = NOTHING
    """What has come for it while it was held, or before."""


@dataclass(frozen=True, slots=True)
class Retracted:
    """The item is deleted; if we retracted it, its work may be committed now."""

    service: str
    node: str
    id: str


@dataclass(frozen=True, slots=True)
class Unlocked:
    """The item is no longer locked to us: we unlocked it, or the lock timed out."""

    service: str
    node: str
    id: str


@dataclass(frozen=True, slots=True)
class Purged:
    """All items of the node are gone (XEP-0060 section 8.5)."""

    service: str
    node: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The node is gone (XEP-0060 section 8.4)."""

    service: str
    node: str


QueueEvent = Delivered | Retracted | Unlocked | Purged | Deleted

EVENT: Final = f"{{{ns.EVENT}}}event"
ITEMS: Final = f"{{{ns.EVENT}}}items"
ITEM: Final = f"{{{ns.EVENT}}}item"
RETRACT: Final = f"{{{ns.EVENT}}}retract"
PURGE: Final = f"{{{ns.EVENT}}}purge"
DELETE: Final = f"{{{ns.EVENT}}}delete"
UNLOCK: Final = frozenset(f"{{{ns}}}unlock" for ns in (QUEUEING, QUEUEING_SHORT))
LOCK: Final = f"{{{PUBQUEUE}}}lock"
HEADERS: Final = f"{{{SHIM}}}headers"


def read_event(message: Element) -> list[QueueEvent]:
    """Return the events of a queue in a message, in their order; empty if it has none."""
    event = message.find(EVENT)
    if event is None or message.get("type") == "error":
        return []
    found: list[QueueEvent] = []
    service = message.get("from", "")
    for part in event:
        node = part.get("node", "")
        if part.tag == ITEMS:
            found += _read_items(message, part, service, node)
        elif part.tag == PURGE:
            found.append(Purged(service, node))
        elif part.tag == DELETE:
            found.append(Deleted(service, node))
    return found


def _read_items(message: Element, items: Element, service: str, node: str) -> list[QueueEvent]:
    found: list[QueueEvent] = []
    for child in items:
        id = child.get("id", "")  # noqa: A001 - the name of the attribute
        if child.tag == ITEM:
            payload = child[0] if len(child) else None
            lock = _read_lock(message)
            headers = message.find(HEADERS)
            named = {} if headers is None else {it.get("name", ""): it.text or "" for it in headers}
            facts = payload, child.get("publisher"), lock, named
            found.append(Delivered(service, node, id, *facts, read_wait(message)))
        elif child.tag == RETRACT:
            found.append(Retracted(service, node, id))
        elif child.tag in UNLOCK:
            found.append(Unlocked(service, node, id))
    return found


def _read_lock(message: Element) -> Lock | None:
    lock = message.find(LOCK)
    if lock is None:
        return None
    published = lock.get("published")
    try:
        return Lock(
            token=int(lock.get("token", "")),
            deadline=read_time(lock.get("deadline", "")),
            attempt=int(lock.get("attempt", "")),
            published=None if published is None else read_time(published),
            failed=int(lock.get("failed", "0")),
        )
    except ValueError as error:
        # the item is usable without it
        log.warning("lock.unreadable", sender=message.get("from"), error=str(error))
        return None


# The plugin.

EVENT_NAMES: Final[dict[type[QueueEvent], str]] = {
    Delivered: "queue_item",
    Retracted: "queue_retract",
    Unlocked: "queue_unlock",
    Purged: "queue_purge",
    Deleted: "queue_delete",
}


@dataclass(frozen=True, slots=True)
class QueueSubscription:
    """A subscription as the service granted it; `queue_requests` may be less than was asked."""

    service: str
    node: str
    jid: str
    subid: str
    queue_requests: int


class XEP_0254(BasePlugin):  # noqa: N801 - the name by which slixmpp's plugins go
    """XEP-0254: PubSub Queueing.

    `client.register_plugin("xep_0254", module="pubqueue_xeps.xep_0254")` adds it to a client.
    """

    name = "xep_0254"
    description = "XEP-0254: PubSub Queueing"
    dependencies: ClassVar[set[str]] = {"xep_0030", "xep_0060"}

    def plugin_init(self) -> None:
        """Start listening for the events of queues."""
        self._queues: set[tuple[str, str]] = set()
        self._features: dict[str, frozenset[str]] = {}
        self.xmpp.add_event_handler("session_start", self._forget_services)
        event = f"{{{self.xmpp.default_ns}}}message/{{{ns.EVENT}}}event"
        self.xmpp.register_handler(Callback("Queue Event", MatchXPath(event), self._handle_event))

    def plugin_end(self) -> None:
        """Stop listening."""
        self.xmpp.del_event_handler("session_start", self._forget_services)
        self.xmpp.remove_handler("Queue Event")

    async def subscribe_queue(
        self,
        service: str,
        node: str,
        queue_requests: int,
        *,
        jid: str | None = None,
        level: str | None = None,
    ) -> QueueSubscription:
        """Subscribe `jid`, by default our full JID, with a window of `queue_requests` items.

        `level` is how deliveries are sent (urn:xmpp:qos): `unacknowledged`, `acknowledged` or `assured`; None leaves it to the
        node. The service has to support the option, and the client needs the plugin `pubqueue_xeps.xep_qos`.

        Our full JID also sends the service directed presence, so that the service frees our items when we go away
        (section 4). Subscribing again is harmless and sets the window again. The options are sent with the request
        (XEP-0254 example 2); if a service answers with another form, that form is filled in (section 2.1). Raises
        NoSuchNode, NotAQueue, ServiceUnavailable or Refused.
        """
        # before the answer: items follow it at once
        self._queues.add((service, node))
        try:
            return await self._subscribe(service, node, jid, queue_requests, level)
        except BaseException:
            self._queues.discard((service, node))
            raise

    async def unsubscribe_queue(self, service: str, node: str, *, jid: str | None = None) -> None:
        """End the subscription; items locked to it stay locked until they are settled or time out."""
        self._queues.discard((service, node))
        wanted = words.unsubscribe(node, jid or self.xmpp.boundjid.full)
        await ask_about(self.xmpp, service, node, wanted)

    async def is_subscribed(self, service: str, node: str) -> bool:
        """Return whether our full JID is subscribed (XEP-0060 section 5.6); raise slixmpp's IqError if refused."""
        answer = await ask(self.xmpp, service, words.own(node))
        return words.has(answer, self.xmpp.boundjid.full)

    async def ask_extended(self, service: str) -> bool:
        """Return whether a service supports `urn:x-pubqueue:0` (XEP-0030 section 3.1).

        A refusal counts as False. Raises ServiceUnavailable if there is no answer.
        """
        return PUBQUEUE in await self.ask_features(service)

    async def ask_features(self, service: str) -> frozenset[str]:
        """Return the features of a service; a refusal counts as none, and keeps those that were known before.

        Raises ServiceUnavailable if there is no answer, or only that of a server which does not reach the service.
        """
        try:
            found = pages.features(await ask(self.xmpp, service, pages.request(service)))
        except IqError as error:
            refusal = refusals.read(error.iq.xml)
            if refusal.condition in refusals.NOT_REACHED:
                raise refusals.failure(refusal, service, "") from None
            return self._features.setdefault(service, frozenset())
        self._features[service] = found
        return found

    async def retract(self, service: str, node: str, item: str) -> None:
        """Delete an item that is done (XEP-0254 section 2.3); raise slixmpp's IqError if refused.

        Returns when the answer comes. Do not commit anything before the event `queue_retract`.
        """
        await self._change(service, f"the retract of {item!r}", ItemRequests(node).retract(item))

    async def unlock(
        self, service: str, node: str, item: str, *, outcome: Outcome | None = None
    ) -> None:
        """Release an item (XEP-0254 section 2.4); raise slixmpp's IqError if refused.

        The IQ is always of type set: example 10 has get, which must not change anything. A service that does not
        support `urn:x-pubqueue:0` (which is asked once in a session) does not get the `outcome`.
        """
        fault_element = (
            "" if outcome is None or not await self._is_extended(service) else fault(outcome)
        )
        await self._change(
            service, f"the unlock of {item!r}", ItemRequests(node).unlock(item, fault_element)
        )

    async def touch(
        self, service: str, node: str, item: str, *, seconds: When | None = None
    ) -> datetime:
        """Extend our lock on an item to `seconds` from now, at most the queue's lock timeout.

        Returns the deadline by the service's clock. Raises slixmpp's IqError if refused, as by every service that does
        not support `urn:x-pubqueue:0`.
        """
        span = None if seconds is None else until("seconds", seconds)
        wanted = ItemRequests(node).touch(item, span)
        return deadline(await self._change(service, f"the touch of {item!r}", wanted))

    async def publish(
        self,
        service: str,
        node: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        delay: When | None = None,
        priority: int | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> str:
        """Publish an item and return its id; when this returns, the service has it.

        An Element is sent as it is, any other value as JSON. `delay` and `ttl` are seconds, timedeltas or aware
        datetimes; `headers` (XEP-0131) are delivered with the payload. The service delivers items of a `group` in the
        order of their publish, and only as many at a time as the node is configured to, by default one. Publishing the
        same id and payload again is harmless, so repeat it when in doubt. Raises ItemDead if the item already exists
        and is dead; NoSuchNode, ServiceUnavailable or Refused; TypeError for a payload that cannot be written as JSON,
        and ValueError for a value that cannot be written as XML.
        """
        name = publishing.identified(id) or uuid4().hex
        beside = publishing.beside(delay, priority, ttl, headers, group)
        wanted = publication(name, node, payload, beside)
        answer = await ask_about(self.xmpp, service, node, wanted)
        if (reason := publishing.death(answer)) is not None:
            raise ItemDead(
                f"The item {name!r} is in {node!r} already, and dead: {reason}. No worker gets it before"
                " an owner redrives or retracts it.",
                node=node,
                id=name,
            )
        return name

    async def _change(self, service: str, words: str, inner: str) -> Element:
        return await ask(self.xmpp, service, IqRequest("set", words, inner))

    async def _is_extended(self, service: str) -> bool:
        known = self._features.get(service)
        return PUBQUEUE in (await self.ask_features(service) if known is None else known)

    def _forget_services(self, _: object) -> None:
        self._features.clear()

    async def _subscribe(
        self, service: str, node: str, jid: str | None, window: int, level: str | None
    ) -> QueueSubscription:
        subscriber = jid or self.xmpp.boundjid.full
        options = {words.QUEUE_REQUESTS: str(window)}
        options |= {} if level is None else {words.QOS_LEVEL: level}
        reply = await self._negotiate(service, node, subscriber, options)
        requests = words.granted(reply)
        if requests is None:
            await ask_about(self.xmpp, service, node, words.unsubscribe(node, subscriber))
            raise NotAQueue(f"{node!r} at {service} is not a work queue.", node=node)
        subscription = reply.find(words.SUBSCRIPTION)
        state = "" if subscription is None else subscription.get("subscription", "")
        if subscription is None or state != "subscribed":
            raise Refused(
                f"{service} left the subscription to {node!r} {state or 'unknown'}.", node=node
            )
        if jid is None:
            # each time: presence is not repeated to a service that was away
            xmpp: Any = self.xmpp
            xmpp.send_presence(pto=service)
        return QueueSubscription(service, node, subscriber, subscription.get("subid", ""), requests)

    async def _negotiate(
        self, service: str, node: str, jid: str, options: dict[str, str]
    ) -> Element:
        wanted = words.subscribe(node, jid, options)
        try:
            return await ask(self.xmpp, service, wanted)
        except IqError as error:
            no = refusals.read(error.iq.xml)
            if no.detail != "configuration-required":
                raise refusals.failure(no, service, node) from None
            answers = words.fill(error.iq.xml, options)
        if not answers:
            raise NotAQueue(
                f"{node!r} at {service} asks for options, but for no window.", node=node
            )
        return await ask_about(self.xmpp, service, node, words.subscribe(node, jid, answers))

    def _handle_event(self, message: StanzaBase) -> None:
        for event in read_event(message.xml):
            if (event.service, event.node) in self._queues:
                self.xmpp.event(EVENT_NAMES[type(event)], event)


def queueing(xmpp: Any) -> XEP_0254:  # noqa: ANN401 - slixmpp's classes do not know our plugin
    """Return the plugin of this client, registering it if needed."""
    xmpp.register_plugin(XEP_0254.name, module="pubqueue_xeps.xep_0254")
    return cast("XEP_0254", xmpp.plugin[XEP_0254.name])
