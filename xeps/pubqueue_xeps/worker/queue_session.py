"""The session with the queues: one connection, and a subscription to each, kept up across reconnects.

In every session the worker subscribes its full JID again (harmless if the subscription still exists) and sends directed
presence to the service, so that the service is notified when the worker goes away (XEP-0254 section 4). Servers do not
repeat presence to a restarted service, and a worker is not notified that it was forgotten; so it subscribes again after
a long silence.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from xml.etree.ElementTree import Element

from slixmpp.exceptions import IqError, IqTimeout

from pubqueue_xeps.client.ask import PendingIqs
from pubqueue_xeps.client.pace import Pace
from pubqueue_xeps.client.xmpp_client import Client, login, logout
from pubqueue_xeps.errors import (
    LoginFailed,
    PubqueueError,
    Refused,
    Replaced,
    ServerUnreachable,
    ServiceUnavailable,
)
from pubqueue_xeps.log import log
from pubqueue_xeps.wire import refusals, then
from pubqueue_xeps.wire.ns import PING, PUBQUEUE, QOS, TIME
from pubqueue_xeps.wire.requests.queueing import unsubscribe
from pubqueue_xeps.wire.times import read_time
from pubqueue_xeps.wire.xml_text import quote
from pubqueue_xeps.xep_0254.queueing import queueing
from pubqueue_xeps.xep_qos import XEP_QOS, Limits, qos

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from datetime import datetime

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.wire.requests import IqRequest
    from pubqueue_xeps.xep_0254.queueing import XEP_0254
    from pubqueue_xeps.xep_qos import Level

T = TypeVar("T")

LOOKS: Final = 3
"""How often at most a new session checks whether an earlier one has ended."""


class Listener(Protocol):
    """Receives the stanzas and events of a session."""

    def read(self, stanza: Element) -> bool:
        """Read a stanza; return False if it is not ours."""

    def cut(self) -> None:
        """Note that the connection is lost."""

    def before_subscribing(self) -> bool:
        """Send, in a new session, what must reach the service before it delivers again.

        Return whether all locks from an earlier session have to be freed.
        """

    def failed(self, error: PubqueueError) -> None:
        """Note that the connection is lost for good."""


class QueueSession:
    """Connects, subscribes, and repeats both whenever needed, until closed.

    `extended` is whether the service supports `urn:x-pubqueue:0`, `follows` whether it publishes follow-ups. This is
    requested with each subscription, because after an outage another service may be running.
    """

    def __init__(
        self,
        client: Client,
        listener: Listener,
        timings: Timings,
        *,
        service: str,
        windows: Mapping[str, int],
        level: Level | None = None,
    ) -> None:
        self._client = client
        self._listener = listener
        self._timings = timings
        self._service, self._nodes, self._windows = service, tuple(windows), dict(windows)
        self._granted: dict[str, int] = {}
        """The windows that were asked for and granted, in this session."""
        self.extended = self.follows = False
        self._ids = (f"{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self.subscribed = False
        """Whether a subscription has been granted, on this or an earlier connection."""
        self.connections = 0
        """How often it has connected."""
        self._online = asyncio.Event()
        self._cut = asyncio.Event()
        self._session = self._fresh = False
        self._replaced = False
        self._wanted = True
        self._last_read = 0.0
        self.since = 0.0
        """When this connection was made, by the event loop's clock."""
        self._unsent: list[bytes] = []
        self._pace = Pace(timings)
        self._keeper: asyncio.Task[None] | None = None
        self._pending = PendingIqs(self.send)
        self._level = level
        self._qos: XEP_QOS | None = None
        if level is not None:
            self._carry(sum(windows.values()))
        client.short_way = self._read
        client.add_event_handler("session_start", self._session_started)
        client.add_event_handler("disconnected", self._disconnected)
        client.add_event_handler("stream_error", self._stream_error)

    @property
    def is_up(self) -> bool:
        """Whether it is connected, and all subscriptions are granted."""
        return self._online.is_set()

    @property
    def jid(self) -> str:
        """The full JID that is subscribed, as the server has bound it."""
        return str(self._client.boundjid.full)

    async def open(self) -> None:
        """Connect and subscribe as soon as server and service are available; raise errors that do not go away."""
        try:
            await self._connect(ServerUnreachable)
        except BaseException:
            await self._leave()
            raise
        self._keeper = asyncio.create_task(self._keep(), name=f"pubqueue line {self.jid}")

    async def close(self) -> None:
        """Send unavailable presence to the service and close the stream; retry nothing more."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        self._online.clear()
        self.vanish()
        await self._leave()

    async def ready(self) -> None:
        """Wait until the subscription is granted."""
        await self._online.wait()

    def new_id(self) -> str:
        """Return an id that no other stanza of this process has."""
        return next(self._ids)

    def send(self, stanza: bytes) -> bool:
        """Send text, together with all else that is sent in this turn of the event loop.

        Returns False, and sends nothing, if there is no session.
        """
        if not self._session:
            return False
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(stanza)
        return True

    async def ask(self, service: str, question: IqRequest, timeout: float) -> Element:  # noqa: ASYNC109 - answers'
        """Return the answer; raise Denied for an error, Unanswered if no answer can or does come."""
        return await self._pending.ask(service, question, timeout)

    async def ask_time(self) -> datetime | None:
        """Return the service's time (XEP-0202), or None if it does not answer with one."""
        question: Any = self._client.Iq(stype="get", sto=self._service)
        question.append(Element(f"{{{TIME}}}time"))
        with suppress(IqError, IqTimeout, ValueError):
            answer = await question.send(timeout=self._timings.answer)
            return read_time(answer.xml.findtext(f"{{{TIME}}}time/{{{TIME}}}utc") or "")
        return None

    def vanish(self) -> None:
        """Become unavailable to the service, which then frees our locks and unsubscribes us."""
        self.send(f"<presence type='unavailable' to={quote(self._service)}/>".encode())

    async def resize(self, windows: Mapping[str, int]) -> None:
        """Give each node another window; in one of 0 nothing new is delivered, and locks stay.

        Without a connection, the next one has these windows. Raises what subscribing raises.
        """
        self._windows.update(windows)
        if self.is_up:
            await self._subscribe_all(queueing(self._client))

    def unsubscribe(self) -> None:
        """End the subscriptions: locks stay, and no new items are delivered (XEP-0254 section 4)."""
        self._wanted = False
        for node in self._nodes:
            if self._windows[node]:
                self._end_subscription(node)

    def _end_subscription(self, node: str) -> None:
        self._granted.pop(node, None)
        wanted = unsubscribe(node, self.jid).body
        start = f"<iq type='set' id='{self.new_id()}' to={quote(self._service)}>"
        self.send(start.encode() + wanted)

    def _flush(self) -> None:
        if self._session and self._unsent:
            stanzas = b"".join(self._unsent)
            server = str(self._client.boundjid.domain)
            self._client.send_raw(stanzas + self._pace.sent(len(stanzas), server))
        self._unsent.clear()

    async def _leave(self) -> None:
        self._flush()
        self._pace.cut()
        self._session = False
        await logout(self._client, timeout=self._timings.parting)

    def _carry(self, window: int) -> None:
        """Read messages carried in IQs: only the service's, and no more than it may have in flight."""
        limits = Limits(window + 100, 1 << 40, window + 100, 1 << 40)
        mine = {"trust": self._service.__eq__, "limits": limits}
        self._client.register_plugin(XEP_QOS.name, mine, module="pubqueue_xeps.xep_qos")
        self._qos = qos(self._client)
        self._qos.send_text = lambda text: self.send(text.encode())

    async def _subscribe(self) -> None:
        plugin = queueing(self._client)
        features = await self._answered(plugin.ask_features(self._service))
        self.extended = PUBQUEUE in features
        self.follows = then.FEATURE in features
        if self._level is not None and QOS not in features:
            raise Refused(
                f"{self._service} does not offer {QOS}, so it delivers nothing at level {self._level}.",
                condition="feature-not-implemented",
            )
        if self._fresh and self._listener.before_subscribing():
            await self._end_earlier_session(plugin)
        self._granted.clear()
        await self._subscribe_all(plugin)
        self._fresh = False
        self._last_read = asyncio.get_running_loop().time()
        self._online.set()

    async def _end_earlier_session(self, plugin: XEP_0254) -> None:
        """Wait until the service has freed the locks of an earlier session of our full JID.

        Usually the server has reported that session's end; if not, we do. If a service has several processes, each
        stanza may be processed by a different one, so our report about the earlier session must be processed before the
        new one begins. A service that cannot answer now is asked again: a report would wait there, too.
        """
        try:
            for look in range(LOOKS):
                if not await self._subscribed_somewhere(plugin):
                    return
                if look == 1:
                    self.vanish()
                else:
                    await asyncio.sleep(self._timings.pause(look))
        except IqError as error:
            no = refusals.read(error.iq.xml)
            if no.is_transient and no.condition != "service-unavailable":
                raise refusals.failure(no, self._service, "") from None
            self.vanish()  # it lists no subscriptions
        # else the node keeps its subscriptions, and frees the locks alone

    async def _subscribed_somewhere(self, plugin: XEP_0254) -> bool:
        for node in self._nodes:
            if await self._answered(plugin.is_subscribed(self._service, node)):
                return True
        return False

    async def _subscribe_all(self, plugin: XEP_0254) -> None:
        """Give each node its window, also if that changes meanwhile."""
        while self._wanted and (unlike := self._unlike()):
            for node in unlike:
                if self._windows[node]:
                    await self._ask_for_items(plugin, node)
                else:
                    self._end_subscription(node)

    def _unlike(self) -> list[str]:
        """Return the nodes whose window is not the one that was granted last in this session."""
        return [node for node in self._nodes if self._granted.get(node, 0) != self._windows[node]]

    async def _ask_for_items(self, plugin: XEP_0254, node: str) -> None:
        window = self._windows[node]
        asked = plugin.subscribe_queue(self._service, node, window, level=self._level)
        granted = await self._answered(asked)
        self._granted[node] = window
        self.subscribed = True
        if not self._online.is_set():
            log.info(
                "worker.subscribed",
                jid=self.jid,
                node=node,
                service=self._service,
                requests=granted.queue_requests,
                extended=self.extended,
            )

    async def _answered(self, question: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self._timings.answer):
                return await question
        except TimeoutError:
            await self._drop_dead_connection()
            raise ServiceUnavailable(f"{self._service} does not answer.") from None

    async def _drop_dead_connection(self) -> None:
        """Abort the connection if the server is silent too: nothing else reports a half-open connection."""
        ping: Any = self._client.Iq(stype="get", sto=self._client.boundjid.domain)
        ping.append(Element(f"{{{PING}}}ping"))
        with suppress(IqError):  # an error is an answer
            try:
                await ping.send(timeout=self._timings.answer)
            except IqTimeout:
                self._client.abort()

    async def _keep(self) -> None:
        """Repair the connection whenever it needs it, until cancelled."""
        try:
            while True:
                await self._quiet()
                await self._connect(LoginFailed)
        except PubqueueError as error:
            self._listener.failed(error)

    async def _connect(self, passing: type[LoginFailed]) -> None:
        """Log in if needed, and subscribe; wait while the service is away or has a temporary fault."""
        failures = 0
        while not self._replaced:
            try:
                if not self._session:
                    await login(self._client, timeout=self._timings.login)
                return await self._subscribe()
            except (passing, ServiceUnavailable) as error:
                pause = self._timings.backoff(failures)
                failures += 1
                log.warning(
                    "worker.waiting",
                    why=str(error),
                    seconds=round(pause, 1),
                    service=self._service,
                )
                await asyncio.sleep(pause)
        raise Replaced(f"Another client has logged in as {self.jid}.")

    async def _quiet(self) -> None:
        """Wait until the connection is cut or nothing has arrived for `refresh` seconds."""
        loop = asyncio.get_running_loop()
        while not self._cut.is_set() and (
            (left := self._last_read + self._timings.refresh - loop.time()) > 0
        ):
            try:
                async with asyncio.timeout(left):
                    await self._cut.wait()
            except TimeoutError:
                continue

    def _read(self, stanza: Element) -> bool:
        if self._pace.read(stanza, self.jid):
            return True
        carried = self._qos is not None and self._qos.read(stanza)
        if not carried and not self._listener.read(stanza) and not self._pending.read(stanza):
            return False
        self._last_read = asyncio.get_running_loop().time()
        return True

    def _session_started(self, _: object) -> None:
        self._session = self._fresh = True
        self.connections += 1
        self.since = asyncio.get_running_loop().time()
        self._cut.clear()

    def _disconnected(self, reason: object) -> None:
        if not self._session:
            return  # a failed attempt, which login reports, or our own close
        self._session = False
        self._online.clear()
        self._cut.set()
        log.warning("worker.disconnected", jid=self.jid, why=str(reason), service=self._service)
        self._listener.cut()
        self._pending.cut()
        self._pace.cut()

    def _stream_error(self, error: StanzaBase) -> None:
        self._replaced = error["condition"] == "conflict"
