"""Publishers of the run: each sends every item until it is confirmed, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from harness.patience import until

from proof.faults_run.job import digest_of, job, named
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import LoginFailed, ServiceUnavailable
from pubqueue_xeps.reading import Reader
from pubqueue_xeps.xep_0254 import queueing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from proof.judge.history import History, Operation

AT_ONCE: Final = 8
ANSWER: Final = 2.0
PAUSE: Final = 0.2
"""Seconds for an answer, and between two attempts."""

NODE: Final = "jobs"


class Publisher(ABC):
    """A client with some items on their way at once; `confirmed` are those that the queue has, by the ids of the histories."""

    is_repeatable = True
    """Whether an item that is published again under its id is the same item: then all attempts are one publish."""

    def __init__(
        self, history: History, group: Callable[[str], str | None] = lambda _item: None
    ) -> None:
        self._history, self._group = history, group
        self.confirmed: set[str] = set()
        self.repeated = 0

    async def publish_all(self, items: Iterable[str], room: Callable[[], Awaitable[None]]) -> None:
        """Publish the items, each when there is `room` for it; return when all are confirmed."""
        waiting = iter(items)
        async with asyncio.TaskGroup() as publishers:
            for _ in range(AT_ONCE):
                publishers.create_task(self._go_through(waiting, room))
        await self.close()

    async def _go_through(
        self, waiting: Iterable[str], room: Callable[[], Awaitable[None]]
    ) -> None:
        for item in waiting:
            await room()
            name, attempts = item, 1
            group = self._group(item)
            publish = self._begin(name, group)
            while not await self.published(name, group):
                self.repeated += 1
                if not self.is_repeatable:
                    publish.end("unknown")
                    name, attempts = f"{item}-again-{attempts}", attempts + 1
                    publish = self._begin(name, group)
                await asyncio.sleep(PAUSE)
            publish.end("ok")
            self.confirmed.add(name)

    def _begin(self, name: str, group: str | None) -> Operation:
        grouped = {"group": group} if group else {}
        digested = digest_of(job(name))
        return self._history.begin("publish", NODE, name, digest=digested, **grouped)

    @abstractmethod
    async def published(self, item: str, group: str | None) -> bool:
        """Publish an item once; say whether that was confirmed."""

    @abstractmethod
    async def close(self) -> None:
        """Go."""


class XmppPublisher(Publisher):
    """A client of slixmpp with our plugin."""

    def __init__(
        self,
        history: History,
        jid: str,
        password: str,
        *,
        host: str,
        port: int,
        service: str,
        group: Callable[[str], str | None] = lambda _item: None,
    ) -> None:
        super().__init__(history, group)
        self._client = make_client(jid, password, host=host, port=port, tls="off")
        self._client.add_event_handler("disconnected", self._cut)
        self._service = service
        self._door = asyncio.Lock()
        self._online = False

    async def published(self, item: str, group: str | None) -> bool:
        """Publish an item once."""
        try:
            await self._log_in()
            async with asyncio.timeout(ANSWER):
                await queueing(self._client).publish(
                    self._service, NODE, job(item), id=item, group=group
                )
        except (LoginFailed, ServiceUnavailable, TimeoutError):
            return False
        return True

    async def read_left(self) -> None:
        """Write what the queue has at the end, dead or not; ask until there is an answer."""
        (left,) = await until(self._left, every=PAUSE, within=None)
        self._history.read(NODE, left)
        await self.close()

    async def _left(self) -> tuple[list[tuple[str, str, str]]] | None:
        try:
            await self._log_in()
            reader = Reader(self._client, self._service)
            waiting = [item async for item in reader.items(NODE)]
            dead = [item async for item in reader.items(NODE, state="dead")]
        except (LoginFailed, ServiceUnavailable):
            return None
        states = {item.id: (item.payload, "waiting") for item in waiting}
        states |= {item.id: (item.payload, "dead") for item in dead}
        return ([(*named(name, it), state) for name, (it, state) in states.items()],)

    async def close(self) -> None:
        """Log out."""
        await logout(self._client)

    async def _log_in(self) -> None:
        async with self._door:
            if not self._online:
                await login(self._client, timeout=10)
                self._online = True

    def _cut(self, _reason: object) -> None:
        self._online = False
