"""One XMPP stream for each Python worker process, kept for all its later tasks.

Spark's Python workers are forked and reused, and a login for each task would cost more than its rows. So this module
keeps the stream, by process and account, on an event loop in its own thread; `write()`, which is synchronous, passes
coroutines to it with `run`. Executors must import this module by name, because a class pickled by value would have new
globals for each task and log in every time. It must start nothing at import.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import secrets
import socket
import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue_spark.client.window import Window
from pubqueue_spark.errors import OptionError
from pubqueue_xeps.client.xmpp_client import Client, login, logout, make_client
from pubqueue_xeps.errors import LoginFailed, LoginRefused
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from xml.etree.ElementTree import Element

    from pubqueue_spark.client.option import Connection
    from pubqueue_spark.client.request import AnswerHandler
    from pubqueue_spark.client.window import Limits, Task
    from pubqueue_xeps.client.xmpp_client import Tls

T = TypeVar("T")
IQ: Final = f"{{{ns.CLIENT}}}iq"
REQUEST: Final = re.compile(r"pq(\d+)-\d+")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """An account and its server; tasks with the same ones share a stream."""

    jid: str
    password: str = field(repr=False)
    host: str | None
    port: int
    tls: Tls
    ca_file: str | None

    def client(self, resource: str) -> Client:
        """Make a client that is not connected yet; raise OptionError for an invalid option."""
        # slixmpp writes every stanza into its debug log, passwords and payloads too.
        logging.getLogger("slixmpp").setLevel(logging.WARNING)
        try:
            return make_client(
                f"{self.jid}/{resource}",
                self.password,
                host=self.host,
                port=self.port,
                tls=self.tls,
                ca_file=self.ca_file,
                ca_setting="tlsCaFile",
            )
        except ValueError as error:
            raise OptionError(
                f"options jid={self.jid}, host={self.host}, tls={self.tls},"
                f" tlsCaFile={self.ca_file}: {error}"
            ) from None


def account(settings: Connection) -> Account:
    """Return the account of a write, and read its password on this machine."""
    return Account(
        settings.jid,
        settings.secret.read(),
        settings.host,
        settings.port,
        settings.tls,
        settings.tls_ca_file,
    )


class PublishSession:
    """A client stream that can reconnect, and the windows that publish through it."""

    def __init__(self, of: Account, resource: str) -> None:
        self._account = of
        self._resource = resource
        self._client: Client | None = None
        self._login = asyncio.Lock()
        self._windows: dict[int, Window] = {}
        self._numbers = itertools.count()

    @property
    def up(self) -> bool:
        """Whether the stream is connected."""
        return self._client is not None and self._client.is_connected()

    def send(self, data: bytes) -> None:
        """Send bytes unchanged; do nothing if the stream is down."""
        if self._client is not None and self._client.is_connected():
            self._client.send_raw(data)

    def drop(self) -> None:
        """Abort the stream."""
        if self._client is not None:
            self._client.abort()

    async def restore(self) -> None:
        """Log in if the stream is down; raise LoginFailed with one sentence."""
        async with self._login:
            if self._client is None:
                self._client = self._account.client(self._resource)
                self._client.short_way = self._take
                self._client.add_event_handler("disconnected", self._lost)
            if not self._client.is_connected():
                await login(self._client)

    async def open(self, task: Task, limits: Limits, results: AnswerHandler) -> tuple[int, Window]:
        """Log in if needed, and open a window for one task; return it with its number, for `close`.

        The window waits for a server that is temporarily away. Raises LoginRefused if the login is refused.
        """
        why = ""
        try:
            await self.restore()
        except LoginRefused:
            raise
        except LoginFailed as error:
            why = str(error)
            log.info("%s: %s", task.who, why)
        number = next(self._numbers)
        window = Window(self, replace(task, prefix=f"pq{number}-"), limits, results)
        if why:
            window.no_way_in(why)
        self._windows[number] = window
        return number, window

    async def close(self, number: int) -> None:
        """Remove a window; its answers are ignored."""
        self._windows.pop(number, None)

    async def logout(self) -> None:
        """Close the stream cleanly."""
        if self._client is not None:
            await logout(self._client)
            self._client = None

    def _take(self, stanza: Element) -> bool:
        """Pass an answer to its window, and everything else to slixmpp."""
        if stanza.tag != IQ or stanza.get("type") not in {"result", "error"}:
            return False
        request = stanza.get("id", "")
        match = REQUEST.fullmatch(request)
        if match is None:
            return False
        window = self._windows.get(int(match[1]))
        if window is not None:
            window.answer(request, stanza)
        return True

    def _lost(self, _reason: object) -> None:
        for window in self._windows.values():
            window.line_lost()


class Pool:
    """The streams of this process, and their thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.sessions: dict[Account, PublishSession] = {}

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, started at its first use."""
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="pubqueue", daemon=True)
        self._thread.start()
        return loop

    def session(self, of: Account, resource: str) -> PublishSession:
        """Return the stream of an account, which may not be logged in."""
        return self.sessions.setdefault(of, PublishSession(of, resource))

    def close(self) -> None:
        """Log out all streams and end the thread."""
        if "loop" not in self.__dict__:
            return
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        del self.loop

    async def _end(self) -> None:
        for session in self.sessions.values():
            await session.logout()
        self.sessions.clear()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:  # slixmpp's senders
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


_pool: Pool | None = None


def pool() -> Pool:
    """Return the pool of this process; a forked process starts with an empty one."""
    global _pool  # noqa: PLW0603  a process has one
    if _pool is None or _pool.pid != os.getpid():
        _pool = Pool()
    return _pool


def run(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine on the pool's loop and wait for it."""
    return asyncio.run_coroutine_threadsafe(coroutine, pool().loop).result()


def resource(application: str) -> str:
    """Return a resource that identifies the publisher and is unique to this process.

    A fixed one would not work: servers disconnect the older of two streams with the same resource.
    """
    parts = ("spark", application, socket.gethostname(), f"{os.getpid()}-{secrets.token_hex(3)}")
    return "/".join(re.sub(r"[^A-Za-z0-9._-]", "-", part)[:64] or "-" for part in parts)
