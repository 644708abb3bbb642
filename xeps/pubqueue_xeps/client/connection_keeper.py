"""Keeps a stream to one service open: logs in again whenever it breaks, until it is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.client.ask import Denied, PendingIqs, Unanswered
from pubqueue_xeps.client.pace import Pace
from pubqueue_xeps.client.xmpp_client import Client, login, logout
from pubqueue_xeps.errors import LoginFailed, PubqueueError, Replaced, ServerUnreachable
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.ns import PING
from pubqueue_xeps.wire.requests import IqRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from slixmpp.xmlstream import StanzaBase

    from pubqueue_xeps.client.connection import Connection
    from pubqueue_xeps.client.pace import Timings

PING_SERVER: Final = IqRequest("get", "whether the server is there", f"<ping xmlns='{PING}'/>")


class ConnectionKeeper:
    """The stream of a publisher.

    `sessions` counts the logins: state that the server drops with a session must be sent again in each. `on_session` is
    called after each login, `equip` with the client before the first one, and `listen` with each stanza that is not an
    answer; it returns whether it has handled the stanza. `last_error` is the error of the latest failed login.
    """

    def __init__(self, connection: Connection, timings: Timings) -> None:
        self._connection = connection
        self._timings = timings
        self._pending = PendingIqs(self.send)
        self._client: Client | None = None
        self._online = asyncio.Event()
        self._cut = asyncio.Event()
        self._unsent: list[bytes] = []
        self._pace = Pace(timings)
        self._looking = self._replaced = False
        self._failure: PubqueueError | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._doubts: set[asyncio.Task[None]] = set()
        self.sessions = 0
        self.last_error = ""
        self.listen: Callable[[Element], bool] = lambda _stanza: False
        self.on_session: Callable[[], None] = lambda: None
        self.equip: Callable[[Client], None] = lambda _client: None

    @property
    def jid(self) -> str:
        """The full JID, as the server has bound it."""
        assert self._client is not None, "it has one only after login"
        return str(self._client.boundjid.full)

    async def open(self) -> None:
        """Log in once the server can be reached; raise errors that do not go away."""
        self._client = client = self._connection.client()
        client.short_way = self._read
        self.equip(client)
        client.add_event_handler("session_start", self._session_started)
        client.add_event_handler("disconnected", self._disconnected)
        client.add_event_handler("stream_error", self._stream_error)
        try:
            await self._connect(ServerUnreachable)
        except BaseException:
            await logout(client, timeout=self._timings.parting)
            raise
        self._keeper = asyncio.create_task(self._keep(), name=f"pubqueue line {self.jid}")

    async def close(self) -> None:
        """Close the stream when all stanzas are sent; retry nothing more."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        self._flush()
        self._online.clear()
        self._failure = self._failure or PubqueueError("The publisher is closed.")
        self._pending.cut()
        self._pace.cut()
        if self._client is not None:
            await logout(self._client, timeout=self._timings.parting)

    async def ready(self) -> None:
        """Wait until the stream is open; raise the error that ended it for good."""
        while not self._online.is_set():
            if self._failure is not None:
                raise self._failure
            await self._online.wait()
        if self._failure is not None:
            raise self._failure

    async def ask(self, service: str, question: IqRequest, timeout: float) -> Element:  # noqa: ASYNC109 - answers'
        """Return the answer; raise Denied for an error, Unanswered if no answer can or does come."""
        try:
            return await self._pending.ask(service, question, timeout)
        except Unanswered:
            await self._drop_dead_connection()
            raise

    def send(self, stanza: bytes) -> bool:
        """Send the stanza together with all others of this turn of the event loop; return False without a stream."""
        if not self._online.is_set():
            return False
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(stanza)
        return True

    def _flush(self) -> None:
        if self._client is not None and self._online.is_set() and self._unsent:
            stanzas = b"".join(self._unsent)
            server = str(self._client.boundjid.domain)
            self._client.send_raw(stanzas + self._pace.sent(len(stanzas), server))
        self._unsent.clear()

    def doubt(self) -> None:
        """After a silence, check whether the connection is alive; abort it if not."""
        task = asyncio.ensure_future(self._drop_dead_connection())
        self._doubts.add(task)
        task.add_done_callback(self._doubts.discard)

    async def _drop_dead_connection(self) -> None:
        """Abort the connection if the server is silent too: nothing else reports a half-open connection."""
        if self._looking or not self._online.is_set() or self._client is None:
            return
        self._looking = True
        try:
            server = str(self._client.boundjid.domain)
            await self._pending.ask(server, PING_SERVER, self._timings.answer)
        except Denied:
            pass  # an error is an answer
        except Unanswered:
            if self._online.is_set():
                self._client.abort()
        finally:
            self._looking = False

    async def _keep(self) -> None:
        """Log in again each time the connection is lost."""
        try:
            while True:
                await self._cut.wait()
                await self._connect(LoginFailed)
        except PubqueueError as error:
            log.error("publisher.failed", why=str(error))
            self._failure = error
            self._online.set()  # the waiting tasks have to see it

    async def _connect(self, passing: type[LoginFailed]) -> None:
        assert self._client is not None, "it is made before"
        failures = 0
        while not self._replaced:
            try:
                return await login(self._client, timeout=self._timings.login)
            except passing as error:
                pause = self._timings.backoff(failures)
                failures += 1
                self.last_error = str(error)
                log.warning("publisher.waiting", why=str(error), seconds=round(pause, 1))
                await asyncio.sleep(pause)
        raise Replaced(f"Another client has logged in as {self.jid}.")

    def _read(self, stanza: Element) -> bool:
        if self._pending.read(stanza) or self.listen(stanza):
            return True
        return self._pace.read(stanza, self.jid)

    def _session_started(self, _: object) -> None:
        self.sessions += 1
        self._cut.clear()
        self._online.set()
        self.on_session()
        log.info("publisher.connected", jid=self.jid)

    def _disconnected(self, reason: object) -> None:
        if not self._online.is_set() or self._failure is not None:
            return  # a failed attempt, which login reports, or our own close
        self._online.clear()
        self._cut.set()
        log.warning("publisher.disconnected", jid=self.jid, why=str(reason))
        self._pending.cut()
        self._pace.cut()

    def _stream_error(self, error: StanzaBase) -> None:
        self._replaced = error["condition"] == "conflict"
