"""Instances on one store, in one process: each with a face of the kind that is tested, and clients of that face."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import httpx
from harness.http.clients import PLAIN
from harness.servers.users import SERVICE

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms, now
from pubqueue.engine.reaper import OtherProcesses, Reaper, free_connections
from pubqueue.faces.xmpp.xml.payload import PAYLOADS
from pubqueue.model.entities import Principal
from pubqueue.rules.access import CreationPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pubqueue.engine.ports import Store
    from pubqueue.testing.engine import Calendar

NEWS = "news"
SHOPS = "projects/shop/topics/orders"
"""The names of the plain nodes, in a test that has one, the second in a project; all other nodes are queues."""


class Client(Protocol):
    """What a client can do at any face. Items and nodes go by their names."""

    async def publish(self, node: str, item: str) -> str:
        """Publish an item; return "" or what the face says of a refusal."""

    async def subscribe(self, node: str, window: int) -> str:
        """Work for a queue, with so many items in flight; return as `publish`."""

    async def retract(self, node: str, item: str) -> str:
        """Report that an item is done; return as `publish`."""

    async def item(self) -> str:
        """Return the next item that is delivered, once it is there."""

    def items(self) -> list[str]:
        """Return what was delivered and not looked at yet."""

    async def take(self, node: str, count: int, wait: float) -> tuple[list[str], str]:
        """Ask once for up to so many items, and wait so many seconds for the first; return their ids, and as `publish`.

        Only where the protocol has a request for it.
        """

    @property
    def bodies(self) -> dict[str, tuple[str | None, bytes]]:
        """Content types and bodies of what was delivered, by the items' ids; where the protocol has them."""

    @property
    def waits(self) -> dict[str, tuple[str | None, dict[str, Any]]]:
        """What woke each delivered item that has waited, and what came for it, as the protocol's JSON has it; by the items' ids."""

    async def send(self, node: str, item: str, body: bytes, kind: str | None) -> str:
        """Publish a body with a content type; return as `publish`. Likewise."""

    async def leave(self) -> None:
        """Go away, as a client does that knows how to."""


class Side:
    """An instance. `begin` and `kill` are its start and its sudden end; with a `calendar`, time passes in it by `advance`."""

    def __init__(
        self, store: Store, face_of: Callable[[Broker], Any], calendar: Calendar | None = None
    ) -> None:
        self.store, self._face_of, self._calendar = store, face_of, calendar
        self._now = calendar.now if calendar else now
        self._tasks = OtherProcesses(store), Reaper(clock=self._now)

    async def begin(self) -> None:
        """Serve, as the wiring does it."""
        await self.store.open()
        others, reaper = self._tasks
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE),
            clock=self._now,
            payloads=PAYLOADS,
            on_moment=reaper.on_moment,
            service=Principal(SERVICE, admin=True),
            instance=await self.store.instances.enter(),
        )
        self.face = self._face_of(self.broker)
        if (accounts := getattr(self.face, "accounts", None)) is not None:
            accounts.watch(self.broker.judge_waits_again)
        others.start(self.broker)
        self.broker.start()
        reaper.start(self.broker)
        await free_connections(self.broker, self.store, self.broker.instance.number)
        self._serving = asyncio.create_task(self.face.run())

    def advance(self, seconds: float) -> None:
        """Let this much time pass, and wake who waits for its end."""
        assert self._calendar, "its time is the machine's"
        self._calendar.advance(seconds)
        self._tasks[1].on_moment(self._calendar.now())

    async def end(self) -> None:
        """Stop in order."""
        others, reaper = self._tasks
        await self.face.stop()
        await self._end_serving()
        await others.stop()
        await reaper.stop()
        await self.broker.stop()
        await self.broker.undelivered.note_all_delivered()
        await self.store.close()

    async def kill(self) -> None:
        """End as by kill -9: nothing is said any more, to no client and not to the store."""
        others, reaper = self._tasks
        self.broker.task.cancel()
        await self._end_serving()
        await asyncio.gather(others.stop(), reaper.stop(), return_exceptions=True)
        await self.store.close()  # it does not leave: its number is found as that of a dead one

    async def _end_serving(self) -> None:
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)


@asynccontextmanager
async def two_sides(
    make_store: Callable[[], Store], face_of: Callable[[Broker], Any]
) -> AsyncIterator[tuple[Side, Side]]:
    """Two instances on one store, which serve."""
    sides = Side(make_store(), face_of), Side(make_store(), face_of)
    async with AsyncExitStack() as ends:
        for side in sides:
            await side.begin()
            ends.push_async_callback(_end, side)
        yield sides


class InTurnTransport(httpx.AsyncHTTPTransport):
    """Sends requests to the places of several instances in turn, as a load balancer does: clients see one host."""

    def __init__(self, roots: Sequence[str]) -> None:
        super().__init__(verify=PLAIN["verify"])
        self._places = itertools.cycle([httpx.URL(root) for root in roots])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the next instance, under the host that the client has named."""
        place = next(self._places)
        request.url = request.url.copy_with(host=place.host, port=place.port)
        return await super().handle_async_request(request)


async def _end(side: Side) -> None:
    if not side.broker.task.done():
        await side.end()
