"""Commits waiting requests in batches, one batch after the other, as long as there is work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.app.batch_size import MAX_BATCH_ITEMS, WaitingRequests
from pubqueue.app.boundaries import answer_with
from pubqueue.app.committer import may_be_of_one, refusal_of
from pubqueue.app.notify.presence_retry import Word
from pubqueue.app.sliced_work import at_the_end, so_far
from pubqueue.app.store.ports import FencedError
from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.presence import Leave

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.committer import Committer
    from pubqueue.app.dispatch.pending import PendingDispatch
    from pubqueue.app.notify.after_commit import AfterCommit
    from pubqueue.app.notify.presence_retry import PresenceRetry
    from pubqueue.app.rules import Request
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Millis

    Taken = tuple[Request, Callable[[Reply], None]]

log = structlog.get_logger(__name__)

RETRY: Final = 1.0
"""Seconds until the next round, after a fault of ours outside all batches."""


class Batches:
    """Runs rounds of batches while requests wait, items may be delivered, or a report is due again."""

    def __init__(
        self,
        committer: Committer,
        dispatch: PendingDispatch,
        presence_retry: PresenceRetry,
        after_commit: AfterCommit,
        clock: Callable[[], Millis],
    ) -> None:
        self._committer, self._dispatch, self._clock = committer, dispatch, clock
        self._presence_retry, self._after_commit = presence_retry, after_commit
        self.waiting = WaitingRequests()
        self.is_stopping = self.is_cutting = False
        """Whether nothing more is delivered, and whether long work starts no more slices."""
        self.rounds = 0
        self.is_awake = False
        """Whether a round runs or is about to; a request that is added then needs no `wake`."""
        self._work = asyncio.Event()
        self.quiet = asyncio.Event()
        self.quiet.set()

    def wake(self) -> None:
        """Run a round as soon as possible."""
        self.is_awake = True
        self.quiet.clear()
        self._work.set()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while self.waiting or self._dispatch or self._presence_retry.is_due:
                    await self._one_round()
                    self.rounds += 1
                self.is_awake = False
                self.quiet.set()
        finally:
            self.is_awake = False
            self.quiet.set()  # after the end no caller waits for an answer that does not come

    async def _one_round(self) -> None:
        try:
            await self._one_batch()
        except Exception:  # the outermost boundary: an unforeseen fault does not end the service
            log.exception("broker.failed", refused=len(self.waiting))
            self._refuse(self.waiting.take_all(), Refusal.INTERNAL_FAULT)
            await asyncio.sleep(RETRY)

    async def _one_batch(self) -> None:
        """Commit a batch; one that fails because of one of its requests is cut in halves."""
        if self._presence_retry.is_due:  # alone: a fault in it affects no other request
            taken, look = self._presence_retry.some(MAX_BATCH_ITEMS), False
        else:
            taken, look = self.waiting.take_batch(), self._dispatch.take_look()
        slices = [taken]
        while slices:
            taken = slices.pop(0)
            if self._presence_retry:
                taken = self._presence_retry.before(taken)
            requests = [request for request, _ in taken]
            try:
                done = await self._committer.commit(requests, everywhere=look)
            except Exception as problem:  # the boundary between this batch and the next one
                if len(requests) > 1 and may_be_of_one(problem):
                    half = len(requests) // 2
                    slices[:0] = [taken[:half], taken[half:]]
                else:
                    await self._lose(taken, refusal_of(problem, requests), problem, look=look)
            else:
                many, look = len(done.decisions), False
                self._committer.shrink()
                self._after_commit.finish(taken[:many], done, last=self.is_cutting)
                if many < len(taken):
                    self.waiting.learn(requests, done.decisions)
                    if slices:  # halves keep their order
                        slices.insert(0, taken[many:])
                    else:
                        self.waiting.put_back(taken[many:])

    async def _lose(
        self, taken: Sequence[Taken], whose: Refusal, problem: Exception, *, look: bool
    ) -> None:
        """Answer the requests of a batch that failed: a store's error may pass, a fault of ours stays."""
        if self.is_cutting and isinstance(problem, FencedError):
            log.info("batch.late", requests=len(taken))  # it has left in order, and asks itself
        elif whose is Refusal.STORE_FAILED:
            log.error("batch.lost", requests=len(taken), why=str(problem))
        else:
            names = sorted({type(request).__name__ for request, _ in taken})
            log.error("batch.failed", requests=names, exc_info=problem)
        self._dispatch.lost(look=look)
        self._refuse(taken, whose)
        if not taken:
            await asyncio.sleep(1)  # only the wake-up is left to try again: not in a hot loop

    def refuse_stalled(self) -> None:
        """Refuse the requests that wait for a batch that does not end."""
        taken = self.waiting.take_all()
        if taken:
            log.error("batch.stalled", refused=len(taken))
        self._refuse(taken)

    def refuse_late(self) -> None:
        """Refuse the waiting requests because the service stops, except those that their senders do not repeat."""
        left = self.waiting.take_all()
        for request, answer in left:
            if isinstance(request, Word):
                self.waiting.add(request, answer)
            else:
                answer_with(answer, at_the_end(request))
        log.warning("drain.refused", requests=len(left) - len(self.waiting))

    def _refuse(self, taken: Sequence[Taken], refusal: Refusal = Refusal.STORE_FAILED) -> None:
        for request, answer in taken:
            if isinstance(request, Word) and refusal is Refusal.STORE_FAILED:
                self._keep(request)
            answer_with(answer, so_far(request) or Refused(refusal))

    def _keep(self, word: Word) -> None:
        """Keep a request that its sender does not repeat, and retry it later; another instance may serve a later session then."""
        if type(word) is Leave and word.at is None:
            word = replace(word, at=self._clock())
        self._presence_retry.keep(word)
        if not self.is_stopping:
            self._presence_retry.retry_later()
