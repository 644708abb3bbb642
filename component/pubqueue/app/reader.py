"""Answers requests that only read, outside the batches: workers do not wait for them, and they do not wait for commits.

Accounts take turns: an account that requests a thousand pages at once delays only itself. Answers
to one account keep the order of its requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import structlog

from pubqueue.app.batch import read
from pubqueue.app.boundaries import answer_with
from pubqueue.app.stall_guard import no_longer_behind
from pubqueue.app.store.ports import StoreError
from pubqueue.app.task import Task
from pubqueue.app.working_set.working_set import WorkingSet
from pubqueue.model.decision import Refusal, Refused, refuse
from pubqueue.model.entities import account_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.facts.context import Context
    from pubqueue.app.rules import Read
    from pubqueue.app.store.ports import Store, Transaction
    from pubqueue.app.watch.observers import Observer, Observers
    from pubqueue.model.decision import Decision, Reply
    from pubqueue.model.entities import Jid

log = structlog.get_logger(__name__)


ENDING: Final = Refused(Refusal.STORE_FAILED, "the service is stopping")
"""The answer to requests that are not begun when the service stops. They had no effect and may be repeated."""


FAILED: Final = Refused(Refusal.STORE_FAILED)
"""The answer to requests that are not begun because the store does not answer."""


class Reader:
    """Answers requests that change nothing, one of each account in turn."""

    def __init__(
        self,
        store: Store,
        context_of: Callable[[WorkingSet], Context],
        observers: Observers[Observer],
    ) -> None:
        self._store = store
        self._observers = observers
        self._context_of = context_of
        self._waiting: dict[Jid, deque[tuple[Read, Callable[[Reply], None]]]] = {}
        """Requests by account, the account whose turn is next first."""
        self._work = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.task = Task("reader", self._run)

    def submit(self, request: Read, answer: Callable[[Reply], None]) -> None:
        """Have the request answered from what is committed when its turn comes."""
        self.task.start()
        account = account_of(request.by.jid)
        self._waiting.setdefault(account, deque()).append((request, answer))
        self._quiet.clear()
        self._work.set()

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_quiet(self) -> bool:
        """Whether all requests are answered."""
        return self._quiet.is_set()

    async def settled(self) -> None:
        """Wait until all requests are answered."""
        await self._quiet.wait()

    def refuse_waiting(self) -> None:
        """Refuse the waiting requests, because the service stops."""
        self._refuse_waiting(ENDING)

    def _refuse_waiting(self, reply: Refused = FAILED) -> None:
        left, self._waiting = self._waiting, {}
        for mine in left.values():
            for _, answer in mine:
                self._answer(answer, reply)

    async def stop(self) -> None:
        """Stop; after `settled` all have been answered. Stopping twice does no harm."""
        await self.task.stop()

    async def _run(self) -> None:
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while self._waiting:
                    request, answer = self._next()
                    decision = await self._decide(request)
                    if decision.then is None:
                        self._answer(answer, decision.reply)
                    else:
                        self._go_on(cast("Read", decision.then), answer)
                self._quiet.set()
        finally:
            self._quiet.set()  # after a fault no requester waits for an answer that will not come

    def _next(self) -> tuple[Read, Callable[[Reply], None]]:
        """Take the request whose turn it is; the account's next one comes after those of all other accounts."""
        account = next(iter(self._waiting))
        mine = self._waiting.pop(account)
        taken = mine.popleft()
        if mine:
            self._waiting[account] = mine
        return taken

    def _go_on(self, request: Read, answer: Callable[[Reply], None]) -> None:
        """Have the next slice of the request read after the turns of the other accounts."""
        account = account_of(request.by.jid)
        mine = self._waiting.pop(account, deque())
        mine.appendleft((request, answer))
        self._waiting[account] = mine

    async def _decide(self, request: Read) -> Decision:
        try:
            with no_longer_behind(self._refuse_waiting):
                return await self._store.read(partial(self._read, request))
        except StoreError as problem:
            log.error("read.failed", why=str(problem))  # noqa: TRY400  # an answer, no trace
            return refuse(Refusal.STORE_FAILED)
        except (
            Exception
        ):  # the boundary between requests: this one has failed, the next one is answered
            log.exception("request.failed", request=type(request).__name__)
            return refuse(Refusal.INTERNAL_FAULT)

    def _read(self, request: Read, tx: Transaction) -> Decision:
        rows = WorkingSet()
        rows.begin(tx)
        return read(self._context_of(rows), request)

    def _answer(self, answer: Callable[[Reply], None], reply: Reply) -> None:
        self._observers.answered(reply)
        answer_with(answer, reply)
