"""Past events in a queue, for tests of their readers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from pubqueue_xeps.batch import Batch
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slixmpp import ClientXMPP

    from pubqueue_demo.prosody import Prosody

SERVICE: Final = "queue.localhost"


@dataclass(frozen=True, slots=True)
class Past:
    """Accounts on one server, with one password, and their actions."""

    server: Prosody
    password: str

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[ClientXMPP]:
        """Log in as an account."""
        client = make_client(f"{name}@localhost", self.password, **self._address)
        await login(client)
        yield client
        await logout(client)

    def worker(self, name: str, node: str) -> Worker:
        """Return a worker that takes one item at a time."""
        jid = f"{name}@localhost/one"
        return Worker(
            jid, self.password, service=SERVICE, node=node, requests=1, signals=(), **self._address
        )

    async def publish(self, node: str, count: int, *, app: str, version: int = 1) -> None:
        """Publish this many items in one transaction."""
        async with (
            self.client("etl") as etl,
            Batch(etl, SERVICE, app=app, version=version) as batch,
        ):
            for _ in range(count):
                await batch.publish(node, Element("{urn:example:job}job"))

    async def work(self, node: str, count: int) -> None:
        """Do this many items."""
        async with self.worker("bot", node) as worker:
            for _ in range(count):
                async with await anext(worker):
                    pass

    @property
    def _address(self) -> dict[str, object]:
        return {"host": self.server.host, "port": self.server.c2s_port, "tls": "off"}


def logged(*names: str) -> str:
    """Return the configuration of queues that keep a log."""
    return "".join(
        f'[[node]]\nname = "{name}"\nqueueing = true\nowners = ["boss@localhost"]\n'
        'publishers = ["etl@localhost"]\nmembers = ["bot@localhost"]\n[node.options]\n"x-queueing#event_log" = true\n'
        for name in names
    )
