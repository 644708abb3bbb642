"""Requests that wait: for a message of a queue, or for a new one of a topic. They are counted, and all end when the service stops."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pubqueue.engine.connections import HttpRequests
from pubqueue.faces.http.host import allow
from pubqueue.faces.rest.http.problems import ProblemError, unavailable
from pubqueue.model.decision import Taken
from pubqueue.model.entities import seconds as span
from pubqueue.rules.presence import Bounce
from pubqueue.rules.take import Take

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pubqueue.engine.broker import Broker
    from pubqueue.faces.rest.terms import RestTerms
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, NodeName, Principal

T = TypeVar("T")

MARGIN = 30.0
"""Seconds for the answer after the wait."""


class WaitingRequests:
    """The waiting requests of a face, by account. `terms` returns the current settings."""

    def __init__(self, broker: Broker, terms: Callable[[], RestTerms]) -> None:
        self._broker, self._terms = broker, terms
        self._of_account: Counter[Jid] = Counter()
        self.counts = HttpRequests()
        self._ending: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """How many wait."""
        return self.counts.waiting

    @contextmanager
    def counted(self, by: Principal, seconds: float) -> Iterator[None]:
        """Count a request that waits in the body; requests that do not wait are not counted.

        Raises:
            ProblemError: too many wait, of the account or in total.

        """
        if not seconds:
            yield
            return
        account, terms = by.account, self._terms()
        if self.count >= terms.max_waiting:
            raise ProblemError(429, "too-many", "too many requests wait", limit=terms.max_waiting)
        if self._of_account[account] >= terms.max_waiting_of_account:
            limit = terms.max_waiting_of_account
            raise ProblemError(
                429, "too-many", "too many requests of the account wait", limit=limit
            )
        allow(seconds + MARGIN)
        self.counts.waiting += 1
        self._of_account[account] += 1
        try:
            yield
        finally:
            self.counts.waiting -= 1
            self._of_account[account] -= 1
            if not self._of_account[account]:
                del self._of_account[account]

    async def take(self, by: Principal, node: NodeName, seconds: float) -> Reply:
        """Take the next item of a queue, and return what the broker answers, with an item, without, or a refusal.

        If the client hangs up, none is locked, or the lock ends without a failure.

        Raises:
            ProblemError: too many wait, or the service stops.

        """
        with self.counted(by, seconds):
            reply = await self._take(Take(by, node, 1, span(seconds)))
        if isinstance(reply, Taken) and not reply.items and self.is_ending:
            raise stopping()
        return reply

    async def _take(self, request: Take) -> Reply:
        decided: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        is_gone = False

        def answer(reply: Reply) -> None:
            if is_gone or decided.done():
                self.give_back(request.by, reply)
            else:
                decided.set_result(reply)

        withdraw = self._broker.take(request, answer)
        try:
            await _first(decided, self._end())
            if not decided.done():
                withdraw()
            return await asyncio.shield(decided)
        except asyncio.CancelledError:
            is_gone = True
            withdraw()
            if decided.done():
                self.give_back(request.by, decided.result())
            raise

    def give_back(self, by: Principal, reply: Reply) -> None:
        """Release items of which nothing was sent, without counting a failure."""
        if isinstance(reply, Taken):
            for item, _ in reply.items:
                bounce = Bounce(by.jid, item.seq, item.token, gone=False)
                self._broker.submit(bounce, lambda _reply: None)

    async def until(self, event: Awaitable[T]) -> T:
        """Wait for something else, unless the service stops before.

        Raises:
            ProblemError: it does.

        """
        waiting = asyncio.ensure_future(event)
        try:
            await _first(waiting, self._end())
            if not waiting.done():
                raise stopping()
            return await waiting
        finally:
            waiting.cancel()

    @property
    def is_ending(self) -> bool:
        """Whether the service stops."""
        return self._ending is not None and self._ending.done()

    def _end(self) -> asyncio.Future[None]:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
        return self._ending

    def end(self) -> None:
        """End all waits: the service stops."""
        if not self._end().done():
            self._end().set_result(None)


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of them is done."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


def stopping() -> ProblemError:
    """Return the problem of a request that meets the end of the service."""
    problem = unavailable("the service stops")
    problem.close = True
    return problem
