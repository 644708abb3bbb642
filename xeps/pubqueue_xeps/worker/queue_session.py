"""The session with the queues: one connection, and a subscription to each, kept up across reconnects.

In every session the worker subscribes its full JID again (harmless if the subscription still exists) and sends
directed presence to the service, by which the service learns when the worker goes away (XEP-0254 section 4). Servers
do not repeat presence to a service that was restarted, and a worker is not notified that it was forgotten; so it
subscribes again after a long silence.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from xml.etree.ElementTree import Element

from slixmpp.exceptions import IqError, IqTimeout

from pubqueue_xeps.client.pace import Pace
from pubqueue_xeps.client.pending_iqs import PendingIqs
from pubqueue_xeps.client.xmpp_client import Client, login, logout
from pubqueue_xeps.errors import (
    LoginFailed,
    PubqueueError,
    Replaced,
    ServerUnreachable,
    ServiceUnavailable,
)
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.clock import read_time
from pubqueue_xeps.wire.ns import PING, TIME
from pubqueue_xeps.wire.requests import subscribing
from pubqueue_xeps.wire.xml_escape import quote
from pubqueue_xeps.xep_0254.queueing import queueing

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from datetime import datetime

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.client.timings import Timings
    from pubqueue_xeps.wire.requests.iq import IqRequest
    from pubqueue_xeps.xep_0254.queueing import XEP_0254

T = TypeVar("T")

LOOKS: Final = 3
"""How often a new session looks at most whether an earlier one is at its end."""


class Listener(Protocol):
    """The receiver of what comes over the stream."""

    def read(self, stanza: Element) -> bool:
        """Take a stanza; return False if it is not ours."""

    def cut(self) -> None:
        """Take note that the connection is lost."""

    def before_subscribing(self) -> bool:
        """Send what must reach the service, in a new session, before it delivers again.

        Return whether all that the service may hold from an earlier session has to be freed.
        """

    def failed(self, error: PubqueueError) -> None:
        """Take note that the connection will not come back."""


class QueueSession:
    """Connects, subscribes, and repeats both whenever needed, until closed.

    `extended` is whether the service supports `urn:x-pubqueue:0`. It is requested with each
    subscription, because after an outage another service may be running.
    """

    def __init__(
        self,
        client: Client,
        listener: Listener,
        timings: Timings,
        *,
        service: str,
        nodes: Sequence[str],
        requests: int,
    ) -> None:
        self._client = client
        self._listener = listener
        self._timings = timings
        self._service, self._nodes, self._requests = service, nodes, requests
        self.extended = False
        self._ids = (f"{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self.subscribed = False
        """A subscription has been granted, be it on an earlier connection."""
        self._online = asyncio.Event()
        self._cut = asyncio.Event()
        self._session = self._fresh = False
        self._replaced = False
        self._wanted = True
        self._heard = 0.0
        self.since = 0.0
        """Since when this connection stands, by the clock of the event loop."""
        self._unsent: list[bytes] = []
        self._pace = Pace(timings)
        self._keeper: asyncio.Task[None] | None = None
        self._pending = PendingIqs(self.send)
        client.short_way = self._read
        client.add_event_handler("session_start", self._session_started)
        client.add_event_handler("disconnected", self._disconnected)
        client.add_event_handler("stream_error", self._stream_error)

    @property
    def jid(self) -> str:
        """The full JID that is subscribed, as the server has bound it."""
        return str(self._client.boundjid.full)

    async def open(self) -> None:
        """Connect and subscribe, as soon as server and service are there; raise what would not pass."""
        try:
            await self._connect(ServerUnreachable)
        except BaseException:
            await self._leave()
            raise
        self._keeper = asyncio.create_task(self._keep(), name=f"pubqueue line {self.jid}")

    async def close(self) -> None:
        """Send unavailable presence to the service, and close the stream; nothing is retried any more."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        self._online.clear()
        self.vanish()
        await self._leave()

    async def ready(self) -> None:
        """Return when the subscription stands."""
        await self._online.wait()

    def new_id(self) -> str:
        """Return an id that no other stanza of this process has."""
        return next(self._ids)

    def send(self, stanza: bytes) -> bool:
        """Send it, together with all else that is sent before the loop looks at sockets again.

        False if there is no session, and then it is forgotten.
        """
        if not self._session:
            return False
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(stanza)
        return True

    async def ask(self, service: str, question: IqRequest, timeout: float) -> Element:  # noqa: ASYNC109 - answers'
        """Return the answer; raises Denied for an error, Unanswered when none can or does come."""
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
        """Be unavailable to the service, which frees all that is locked to us and unsubscribes us."""
        self.send(f"<presence type='unavailable' to={quote(self._service)}/>".encode())

    def unsubscribe(self) -> None:
        """End the subscriptions for good: the locks stay, nothing new comes (XEP-0254 section 4)."""
        self._wanted = False
        for node in self._nodes:
            wanted = subscribing.unsubscribe(node, self.jid).body
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

    async def _subscribe(self) -> None:
        plugin = queueing(self._client)
        self.extended = await self._answered(plugin.ask_extended(self._service))
        if self._fresh and self._listener.before_subscribing():
            await self._end_earlier_session(plugin)
        for node in self._nodes:
            if self._wanted:
                await self._ask_for_items(plugin, node)
        self._fresh = False
        self._heard = asyncio.get_running_loop().time()
        self._online.set()

    async def _end_earlier_session(self, plugin: XEP_0254) -> None:
        """Return when the service has freed what an earlier session of our full JID may have left.

        Usually its server has reported that it is gone; if not, we do. If several processes serve,
        each stanza may be processed by another of them: our report about the earlier session must
        be complete before the new one begins.
        """
        with suppress(IqError):  # a service that lists none is notified in any case
            for look in range(LOOKS):
                if not await self._subscribed_somewhere(plugin):
                    return
                if look == 1:
                    self.vanish()
                else:
                    await asyncio.sleep(self._timings.pause(look))
            return  # the node keeps its subscriptions, and frees the locks alone
        self.vanish()

    async def _subscribed_somewhere(self, plugin: XEP_0254) -> bool:
        for node in self._nodes:
            if await self._answered(plugin.is_subscribed(self._service, node)):
                return True
        return False

    async def _ask_for_items(self, plugin: XEP_0254, node: str) -> None:
        asked = plugin.subscribe_queue(self._service, node, self._requests)
        granted = await self._answered(asked)
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
        """Wait until the line needs care, and give it, for ever."""
        try:
            while True:
                await self._quiet()
                await self._connect(LoginFailed)
        except PubqueueError as error:
            self._listener.failed(error)

    async def _connect(self, passing: type[LoginFailed]) -> None:
        """Log in, if need be, and subscribe; wait for a service that is away, and for what is passing."""
        failures = 0
        while not self._replaced:
            try:
                if not self._session:
                    await login(self._client, timeout=self._timings.login)
                return await self._subscribe()
            except (passing, ServiceUnavailable) as error:
                pause = self._timings.backoff(failures)
                failures += 1
                log.warning("worker.waiting", why=str(error), seconds=round(pause, 1))
                await asyncio.sleep(pause)
        raise Replaced(f"Another client has logged in as {self.jid}.")

    async def _quiet(self) -> None:
        """Return when the connection is cut, or nothing has arrived for `refresh` seconds."""
        loop = asyncio.get_running_loop()
        while not self._cut.is_set() and (
            (left := self._heard + self._timings.refresh - loop.time()) > 0
        ):
            try:
                async with asyncio.timeout(left):
                    await self._cut.wait()
            except TimeoutError:
                continue

    def _read(self, stanza: Element) -> bool:
        if self._pace.read(stanza, self.jid):
            return True
        if not self._listener.read(stanza) and not self._pending.read(stanza):
            return False
        self._heard = asyncio.get_running_loop().time()
        return True

    def _session_started(self, _: object) -> None:
        self._session = self._fresh = True
        self.since = asyncio.get_running_loop().time()
        self._cut.clear()

    def _disconnected(self, reason: object) -> None:
        if not self._session:
            return  # an attempt that failed, which login reports, or our own end
        self._session = False
        self._online.clear()
        self._cut.set()
        log.warning("worker.disconnected", jid=self.jid, why=str(reason))
        self._listener.cut()
        self._pending.cut()
        self._pace.cut()

    def _stream_error(self, error: StanzaBase) -> None:
        self._replaced = error["condition"] == "conflict"
