"""Sends the requests of HTTP to the broker of this process; a response comes in time, or an error names the reason."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pubqueue.model.decision import Refusal, Refused
from pubqueue.operations.table import performed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.broker import Broker
    from pubqueue.engine.table import Request
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Given, Operation

TIMEOUT: Final = 10.0
"""Seconds that the store has to respond."""


class SilentError(Exception):
    """The store, or the process that does the work, does not respond; the message names which."""


class RefusedError(Exception):
    """The core refused; the reply has the reason."""

    def __init__(self, reply: Refused) -> None:
        super().__init__(reply.reason or reply.refusal.name.lower().replace("_", " "))
        self.reply = reply


class Asking:
    """Submits requests. `broker_of` returns the broker, or None while there is none."""

    def __init__(self, broker_of: Callable[[], Broker | None]) -> None:
        self._broker_of = broker_of
        self._performing: set[asyncio.Task[Reply]] = set()

    async def __call__(self, request: Request) -> Reply:
        """Submit a request and return its reply.

        Raises:
            SilentError: the service does not respond now.
            RefusedError: the request was refused.

        """
        broker = self._broker_of()
        if broker is None:
            raise SilentError("This process does not serve at present.")
        try:
            async with asyncio.timeout(TIMEOUT):
                reply = await broker.handle(request)
        except TimeoutError:
            raise SilentError("The store does not answer.") from None
        if isinstance(reply, Refused):
            if reply.refusal is Refusal.STORE_FAILED:
                raise SilentError(reply.reason or "The store does not answer.")
            raise RefusedError(reply)
        return reply

    async def perform(
        self, operation: Operation, by: Principal, given: Given, *, remote: str
    ) -> Reply:
        """Do an operation and log it, also if the client disconnects meanwhile: an operation that was done has to be in the audit log.

        Raises:
            SilentError, RefusedError: as a call.

        """
        task = asyncio.create_task(self._performed(operation, by, given, remote), name="operation")
        self._performing.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def _performed(
        self, operation: Operation, by: Principal, given: Given, remote: str
    ) -> Reply:
        reply = await self(operation.ask(by, given))
        performed(operation, by, given, remote=remote)
        return reply

    def _over(self, task: asyncio.Task[Reply]) -> None:
        self._performing.discard(task)
        if not task.cancelled():
            task.exception()  # the client may have disconnected
