"""A publisher of the run: sends each item until it is confirmed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import LoginFailed, ServiceUnavailable
from pubqueue_xeps.xep_0254 import queueing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

AT_ONCE: Final = 8
ANSWER: Final = 2.0
PAUSE: Final = 0.2
"""Seconds for an answer, and between two attempts."""


class Publisher:
    """One client with some items on their way at once; `confirmed` are those that the queue has."""

    def __init__(
        self,
        jid: str,
        password: str,
        *,
        host: str,
        port: int,
        service: str,
        group: Callable[[str], str | None] = lambda _item: None,
    ) -> None:
        self._group = group
        self.confirmed: set[str] = set()
        self.repeated = 0
        self._client = make_client(jid, password, host=host, port=port, tls="off")
        self._client.add_event_handler("disconnected", self._cut)
        self._service = service
        self._door = asyncio.Lock()
        self._online = False

    async def publish_all(self, items: Iterable[str], room: Callable[[], Awaitable[None]]) -> None:
        """Publish the items, each when there is `room` for it; return when all are confirmed."""
        waiting = iter(items)
        async with asyncio.TaskGroup() as publishers:
            for _ in range(AT_ONCE):
                publishers.create_task(self._go_through(waiting, room))
        await logout(self._client)

    async def _go_through(
        self, waiting: Iterable[str], room: Callable[[], Awaitable[None]]
    ) -> None:
        for item in waiting:
            await room()
            while not await self._published(item):
                self.repeated += 1
                await asyncio.sleep(PAUSE)
            self.confirmed.add(item)

    async def _published(self, item: str) -> bool:
        payload = Element("{urn:example:work}job")
        payload.text = item
        try:
            await self._log_in()
            async with asyncio.timeout(ANSWER):
                await queueing(self._client).publish(
                    self._service, "jobs", payload, id=item, group=self._group(item)
                )
        except (LoginFailed, ServiceUnavailable, TimeoutError):
            return False
        return True

    async def _log_in(self) -> None:
        async with self._door:
            if not self._online:
                await login(self._client, timeout=10)
                self._online = True

    def _cut(self, _reason: object) -> None:
        self._online = False
