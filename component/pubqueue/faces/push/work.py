"""A registration that this instance works on: when its lines may push, and the record of its results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from pubqueue.faces.push.verdicts import Outcome, Verdict
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import NotePush

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.broker import Broker
    from pubqueue.model.entities import Item, Jid, Principal

log = structlog.get_logger(__name__)

PAUSE: Final = 1.0
"""Seconds before a target is called again after its first failure."""

MAX_PAUSE: Final = 60.0


class Pusher(Protocol):
    """The interface to a face: how an item is pushed, and how many at a time."""

    def window(self, row: Registration) -> int:
        """Return how many items are pushed at a time; 0: the registration is not pushed."""

    def retries(self, row: Registration) -> int:
        """Return after how many failures in a row a registration is disabled, 0 for never."""

    def may(self, account: Jid) -> bool:
        """Return whether the account may still have items pushed."""

    async def push(self, work: Work, item: Item, payload: bytes) -> Outcome:
        """Push an item, and return the result."""


class Work:
    """A registration that this instance works on."""

    def __init__(  # noqa: PLR0917  # what a line needs
        self,
        broker: Broker,
        pusher: Pusher,
        service: Principal,
        runner: str,
        row: Registration,
        by: Principal,
    ) -> None:
        self.broker, self.pusher, self.row, self.by = broker, pusher, row, by
        self._service, self._runner = service, runner
        self._healthy = asyncio.Event()
        self._healthy.set()
        self._resumes = 0.0
        self.is_over = asyncio.Event()
        self.is_closing = False
        """Whether pushing has ended."""
        self.takes: dict[int, Callable[[], None]] = {}
        """Ends the wait of each line that waits for an item."""

    def brace(self, outcome: Outcome) -> None:
        """Have no other line take an item that is about to be released."""
        verdict = outcome.verdict
        if verdict in {Verdict.DONE, Verdict.BAD}:
            return
        self.is_closing = self.is_closing or verdict in {Verdict.DISABLED, Verdict.GONE}
        failures = self.row.failures + (verdict is not Verdict.LATER)
        most = self.pusher.retries(self.row)
        self.is_closing = self.is_closing or bool(most and failures >= most)
        if verdict in {Verdict.FAILED, Verdict.AGAIN}:
            self._healthy.clear()
        pause = outcome.wait or min(PAUSE * 2 ** min(failures, 10) / 2, MAX_PAUSE)
        self._resumes = asyncio.get_running_loop().time() + pause
        for withdraw in tuple(self.takes.values()):
            withdraw()

    async def turn(self, line: int) -> None:
        """Return when the line may push: after a failure only the first one does, and after a while."""
        if self.is_closing:
            await self.is_over.wait()
        if line:
            await self._healthy.wait()
        delay = self._resumes - asyncio.get_running_loop().time()
        if delay > 0:
            await asyncio.sleep(delay)

    async def note(self, *, position: int = 0, following: str | None = None) -> None:
        """Store the position of the registration, and the URL for the next message."""
        await self._note(
            failures=self.row.failures,
            error=self.row.error,
            position=position,
            following=self.row.following if following is None else following,
        )

    async def judged(self, outcome: Outcome, position: int = 0) -> None:
        """Store the result of a push, and its effect on the registration."""
        row, verdict = self.row, outcome.verdict
        if verdict in {Verdict.DONE, Verdict.BAD}:
            self._healthy.set()
            if row.failures or row.following != outcome.following or position:
                await self._note(failures=0, following=outcome.following, position=position)
            return
        failures = row.failures + (verdict is not Verdict.LATER)
        most = self.pusher.retries(row)
        disabled = verdict is Verdict.DISABLED or bool(most and failures >= most)
        await self._note(
            failures=failures,
            error=outcome.reason,
            disabled=disabled,
            ended=verdict is Verdict.GONE,
            position=position,
            following=row.following,
        )
        if disabled or verdict is Verdict.GONE:
            event = "push.disabled" if disabled else "push.ended"
            log.warning(event, registration=row.name, node=row.node, reason=outcome.reason)
            self.is_over.set()

    async def _note(self, **values: object) -> None:
        note = NotePush(self._service, self.row.name, self._runner, **values)  # type: ignore[arg-type]  # fields by name
        reply = await self.broker.handle(note)
        if isinstance(reply, Registrations):
            self.row = reply.entries[0]
        elif isinstance(reply, Refused) and reply.refusal is not Refusal.STORE_FAILED:
            self.is_over.set()
