"""Several queue services in this process, for publishers and workers with `services=`.

    async def test_an_order_is_done_wherever_it_is():
        with Services() as services:
            services.create("jobs")
            async with Publisher(**services.account("shop")) as publisher:
                await publisher.publish("jobs", {"order": 7}, id="a")
            await services.run(Worker(**services.account(), node="jobs"), handle, node="jobs")
            assert services.done("jobs") == ["a"]

Each is a `Service` with a store and a time of its own; all are reached over the connection of the first.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self, TypedDict

from pubqueue.testing.engine import DOMAIN
from pubqueue.testing.service import TIMEOUT, Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from pubqueue.testing.engine import Option
    from pubqueue_xeps.client.xmpp_client import Tls
    from pubqueue_xeps.handlers import Handlers
    from pubqueue_xeps.item import Item
    from pubqueue_xeps.wire.times import Span
    from pubqueue_xeps.worker.worker import Worker

TWO: Final = (f"queue-a.{DOMAIN}", f"queue-b.{DOMAIN}")
"""The addresses of services that are given none."""


class SeveralAccount(TypedDict):
    """What a worker or publisher needs to connect: `Worker(**services.account("bot"), node="jobs")`."""

    jid: str
    password: str
    services: list[str]
    host: str
    port: int
    tls: Tls


class Services:
    """Use it once, as a context manager: `with Services() as services`; `services[address]` is one of them.

    `addresses` are domains, two by default.
    """

    def __init__(self, *addresses: str) -> None:
        self._all: Final = {address: Service(address) for address in addresses or TWO}
        self._running = ExitStack()

    @property
    def addresses(self) -> list[str]:
        """The JIDs of the services, as `services=` takes them."""
        return list(self._all)

    def __getitem__(self, address: str) -> Service:
        return self._all[address]

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            first, *others = [starting.enter_context(one) for one in self._all.values()]
            for other in others:
                first.join(other)
            self._running = starting.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def account(self, name: str = "bot") -> SeveralAccount:
        """Return how this account connects, as `Worker` and `Publisher` take it."""
        one = next(iter(self._all.values())).account(name)
        return SeveralAccount(
            jid=one["jid"],
            password=one["password"],
            services=self.addresses,
            host=one["host"],
            port=one["port"],
            tls=one["tls"],
        )

    def clear(self) -> None:
        """Disconnect all clients, and delete every node at each."""
        for one in self._all.values():
            one.clear()

    def create(self, node: str, **options: Option) -> None:
        """Create a queue at each, as `Service.create` does; raise ValueError for a setting that does not exist."""
        for one in self._all.values():
            one.create(node, **options)

    def done(self, node: str) -> list[str]:
        """Return the ids of the items that are done at any of them, as `Service.done` does."""
        return [name for one in self._all.values() for name in one.done(node)]

    async def run(
        self,
        worker: Worker,
        handler: Callable[[Item], Awaitable[object]] | Handlers,
        *,
        node: str,
        within: Span = TIMEOUT,
    ) -> None:
        """Run a worker until the node is `settled` at each, then stop it.

        Raises:
            LookupError, TimeoutError: as `Service.settled`.
            pubqueue_xeps.errors.PubqueueError: the worker ended with this error.

        """
        working = asyncio.create_task(worker.run(handler), name="worker")
        settling = asyncio.create_task(self._settled(node, within), name="settled")
        try:
            await asyncio.wait({working, settling}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
            try:
                await settling
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None
            if not working.done():
                worker.stop()
                await working
        finally:
            for task in (working, settling):
                task.cancel()
            await asyncio.gather(working, settling, return_exceptions=True)

    async def _settled(self, node: str, within: Span) -> None:
        async with asyncio.TaskGroup() as group:
            for one in self._all.values():
                group.create_task(one.settled(node, within=within))
