"""XEP-0254: PubSub Queueing, the subscriber's side, as a slixmpp plugin.

Events, each with a frozen dataclass of `pubqueue_xeps.xep_0254.event`, for the queues that were
subscribed with `subscribe_queue`: `queue_item`, `queue_retract`, `queue_unlock`, `queue_purge` and
`queue_delete`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from uuid import uuid4

from slixmpp.exceptions import IqError
from slixmpp.plugins import BasePlugin
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from pubqueue_xeps.client.ask import ask, ask_about
from pubqueue_xeps.errors import ItemDead, NotAQueue, Refused
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.ns import EVENT, PUBQUEUE
from pubqueue_xeps.wire.requests import disco, publishing, subscribing
from pubqueue_xeps.wire.requests.iq import IqRequest
from pubqueue_xeps.wire.requests.publication import publication
from pubqueue_xeps.wire.requests.settling import ItemRequests, deadline, fault
from pubqueue_xeps.wire.times import until
from pubqueue_xeps.xep_0254.event import (
    Deleted,
    Delivered,
    Purged,
    QueueEvent,
    Retracted,
    Unlocked,
    read_event,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.wire.outcome import Outcome
    from pubqueue_xeps.wire.times import When

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
        """Begin to listen for the events of queues."""
        self._queues: set[tuple[str, str]] = set()
        self._extended: dict[str, bool] = {}
        self.xmpp.add_event_handler("session_start", self._forget_services)
        event = f"{{{self.xmpp.default_ns}}}message/{{{EVENT}}}event"
        self.xmpp.register_handler(Callback("Queue Event", MatchXPath(event), self._handle_event))

    def plugin_end(self) -> None:
        """Stop listening."""
        self.xmpp.del_event_handler("session_start", self._forget_services)
        self.xmpp.remove_handler("Queue Event")

    async def subscribe_queue(
        self, service: str, node: str, queue_requests: int, *, jid: str | None = None
    ) -> QueueSubscription:
        """Subscribe `jid`, by default our full JID, with a window of `queue_requests` items.

        Our full JID also sends the service directed presence, so that the service notices when we
        go away, and frees our items (section 4). Repeating it is harmless and sets the window
        again. The options are sent with the request (XEP-0254 example 2); if a service answers with
        another form, that one is filled in (section 2.1). Raises NoSuchNode, NotAQueue,
        ServiceUnavailable or Refused.
        """
        # before the answer is here: items follow it at once
        self._queues.add((service, node))
        try:
            return await self._subscribe(service, node, jid, queue_requests)
        except BaseException:
            self._queues.discard((service, node))
            raise

    async def unsubscribe_queue(self, service: str, node: str, *, jid: str | None = None) -> None:
        """End the subscription; items locked to it stay so until settled or timed out."""
        self._queues.discard((service, node))
        wanted = subscribing.unsubscribe(node, jid or self.xmpp.boundjid.full)
        await ask_about(self.xmpp, service, node, wanted)

    async def is_subscribed(self, service: str, node: str) -> bool:
        """Ask whether our full JID is subscribed (XEP-0060 section 5.6); raise slixmpp's IqError if refused."""
        answer = await ask(self.xmpp, service, subscribing.own(node))
        return subscribing.has(answer, self.xmpp.boundjid.full)

    async def ask_extended(self, service: str) -> bool:
        """Ask a service whether it supports `urn:x-pubqueue:0` (XEP-0030 section 3.1).

        A refusal counts as no. Raises ServiceUnavailable when there is no answer.
        """
        try:
            found = disco.features(await ask(self.xmpp, service, disco.request(service)))
        except IqError:
            return self._extended.setdefault(service, False)
        self._extended[service] = PUBQUEUE in found
        return self._extended[service]

    async def retract(self, service: str, node: str, item: str) -> None:
        """Delete an item that is done (XEP-0254 section 2.3); raise slixmpp's IqError if refused.

        Returns with the answer. Do not commit anything before the event `queue_retract`.
        """
        await self._change(service, f"the retract of {item!r}", ItemRequests(node).retract(item))

    async def unlock(
        self, service: str, node: str, item: str, *, outcome: Outcome | None = None
    ) -> None:
        """Give an item back (XEP-0254 section 2.4); raise slixmpp's IqError if refused.

        Always in an IQ of type set: example 10 has get, which must not change anything. A service
        that does not know `urn:x-pubqueue:0`, which is asked once in a session, does not get the
        `outcome`.
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

        Returns the deadline by the service's clock. Raises slixmpp's IqError if it is refused, as
        by each service that does not know `urn:x-pubqueue:0`.
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
        datetimes; `headers` (XEP-0131) are delivered with the payload. Of the items of a `group` the service delivers
        only as many at a time as the node is configured to, by default one, in the order of their publish. Publishing
        the same id and payload again is harmless, so when in doubt publish again. Raises ItemDead if the item is
        there, but dead; NoSuchNode, ServiceUnavailable or Refused; TypeError for a payload that has no form in JSON,
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
        known = self._extended.get(service)
        return await self.ask_extended(service) if known is None else known

    def _forget_services(self, _: object) -> None:
        self._extended.clear()

    async def _subscribe(
        self, service: str, node: str, jid: str | None, window: int
    ) -> QueueSubscription:
        subscriber = jid or self.xmpp.boundjid.full
        reply = await self._negotiate(service, node, subscriber, str(window))
        requests = subscribing.granted(reply)
        if requests is None:
            await ask_about(self.xmpp, service, node, subscribing.unsubscribe(node, subscriber))
            raise NotAQueue(f"{node!r} at {service} is not a work queue.", node=node)
        subscription = reply.find(subscribing.SUBSCRIPTION)
        state = "" if subscription is None else subscription.get("subscription", "")
        if subscription is None or state != "subscribed":
            raise Refused(
                f"{service} left the subscription to {node!r} {state or 'unknown'}.", node=node
            )
        if jid is None:
            # each time: it is not replayed to a service that was away
            xmpp: Any = self.xmpp
            xmpp.send_presence(pto=service)
        return QueueSubscription(service, node, subscriber, subscription.get("subid", ""), requests)

    async def _negotiate(self, service: str, node: str, jid: str, window: str) -> Element:
        wanted = subscribing.subscribe(node, jid, {subscribing.QUEUE_REQUESTS: window})
        try:
            return await ask(self.xmpp, service, wanted)
        except IqError as error:
            no = refusals.read(error.iq.xml)
            if no.detail != "configuration-required":
                raise refusals.failure(no, service, node) from None
            answers = subscribing.fill(error.iq.xml, window)
        if not answers:
            raise NotAQueue(
                f"{node!r} at {service} asks for options, and none is a window.", node=node
            )
        return await ask_about(self.xmpp, service, node, subscribing.subscribe(node, jid, answers))

    def _handle_event(self, message: StanzaBase) -> None:
        for event in read_event(message.xml):
            if (event.service, event.node) in self._queues:
                self.xmpp.event(EVENT_NAMES[type(event)], event)


def queueing(xmpp: Any) -> XEP_0254:  # noqa: ANN401 - slixmpp's classes do not know our plugin
    """Return the plugin of this client, registering it if need be."""
    xmpp.register_plugin(XEP_0254.name, module="pubqueue_xeps.xep_0254")
    return cast("XEP_0254", xmpp.plugin[XEP_0254.name])
