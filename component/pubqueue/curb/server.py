"""Serves a journal: in each turn of the loop it reads what all clients sent, syncs once, then answers and delivers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.curb.connection import Client, error
from pubqueue.curb.journal import DiskError
from pubqueue.curb.queue import Queue
from pubqueue.faces.listener import Bounds, Listener
from pubqueue.faces.listener.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.curb.journal import Journal
    from pubqueue.faces.listener import ClientConnection, Place

log = structlog.get_logger(__name__)

CONNECTIONS: Final = 500
BOUNDS: Final = Bounds(connections=CONNECTIONS, per_peer=CONNECTIONS, per_user=CONNECTIONS)
BUSY: Final = error("too many connections", f"there are at most {CONNECTIONS} connections")
MAX_KEPT: Final = 32 << 20
"""Bytes of incomplete frames, of all clients together."""
COUNT_EVERY: Final = 0.1
"""Seconds between two counts."""


class Server:
    """One queue, its listener and its clients."""

    def __init__(self, journal: Journal, bounds: Bounds = BOUNDS) -> None:
        self.problem: DiskError | None = None
        """Why it stopped by itself."""
        self.stopped = asyncio.Event()
        """Set when it has to stop, or cannot go on."""
        budget = Budget(MAX_KEPT)
        self.listener = Listener("curb", self._begin, bounds, busy=BUSY, budget=budget)
        self._journal, self._queue = journal, Queue(journal)
        self.counting: set[Client] = set()
        """Clients that want the count."""
        self._active: dict[Client, None] = {}
        self._turn: asyncio.Handle | None = None
        self._shown, self._serial = -1, 0
        self._count: asyncio.TimerHandle | None = None

    async def serve(self, place: Place, ready: Callable[[list[tuple[str, int]]], None]) -> None:
        """Listen until `stopped` is set, then answer what was read and close.

        Raises:
            CannotListenError: the address is in use, or does not belong to this machine.
            DiskError: the journal cannot be written any more; nothing is confirmed after that.

        """
        await self.listener.open([place])
        try:
            ready(self.listener.addresses)
            await self.stopped.wait()
        finally:
            self.listener.close()
            await asyncio.sleep(0)
            self._work()
            await self.listener.stop()
            for timer in (self._turn, self._count):
                if timer is not None:
                    timer.cancel()
        if self.problem is not None:
            raise self.problem
        self._journal.sync()

    def soon(self, client: Client) -> None:
        """Sync the journal in the next turn, then send the answers of this client."""
        self._active.setdefault(client)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._work)

    def broken(self, problem: DiskError) -> None:
        """Confirm nothing more, and stop: the journal cannot be written."""
        if self.problem is None:
            self.problem = problem
            log.error("journal.failed", why=problem.strerror or str(problem))
        self.stopped.set()

    def _begin(self, connection: ClientConnection) -> Client:
        return Client(self._queue, self, connection)

    def _work(self) -> None:
        """Sync what all clients sent, answer them, deliver."""
        self._turn = None
        if self.problem is not None:
            return
        active, self._active = tuple(self._active), {}
        try:
            self._journal.sync()
            for client in active:
                self._send(client)
            self._queue.dispatch()
        except DiskError as problem:
            self.broken(problem)
            return
        if self._count is None:
            self._send_count()

    def _send(self, client: Client) -> None:
        """Let a client send its answers; a fault in one ends only that one."""
        try:
            client.send()
        except DiskError:
            raise
        except Exception as problem:  # the boundary between clients
            client.fail(problem)

    def _send_count(self) -> None:
        """Send the count to clients that do not have it; then not again for a while."""
        self._count = None
        if not self.counting:
            return
        self._serial += 1
        self._shown = self._journal.count
        for client in tuple(self.counting):
            client.send_count(self._serial, self._journal.count)
        self._count = asyncio.get_running_loop().call_later(COUNT_EVERY, self._rest)

    def _rest(self) -> None:
        """Check whether the count has changed meanwhile."""
        self._count = None
        if self._shown != self._journal.count:
            self._send_count()
