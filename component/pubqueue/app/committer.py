"""Commits batches: each in one transaction, retried from fresh rows while that can help.

The cache is cleared after a failed attempt.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import structlog

from pubqueue.app.batch import SpoiltError, UndeliverableError, run
from pubqueue.app.stall_guard import no_longer_behind
from pubqueue.app.store.ports import StaleError, StoreError, UnfitError
from pubqueue.app.watch.watching import Took
from pubqueue.app.working_set.change_applier import ChangeApplier
from pubqueue.app.working_set.working_set import WorkingSet
from pubqueue.model.decision import Refusal
from pubqueue.rules.expire import Expire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.batch import BatchResult
    from pubqueue.app.dispatch.pending import PendingDispatch
    from pubqueue.app.facts.context import Context
    from pubqueue.app.rules import Request
    from pubqueue.app.store.ports import Store, Transaction
    from pubqueue.app.working_set.open_windows import Takers
    from pubqueue.model.entities import Jid, Millis

log = structlog.get_logger(__name__)


class Committer:
    """Runs one batch after the other, on rows that it caches between them.

    `note` records in each transaction up to which token deliveries have been sent. `on_stall` is called repeatedly
    while a transaction does not end; `on_undeliverable` is called when a batch has to be committed without its
    deliveries.
    """

    def __init__(
        self,
        store: Store,
        dispatch: PendingDispatch,
        reaches: Callable[[Jid], bool],
        *,
        context_of: Callable[[WorkingSet], Context],
        note: Callable[[Transaction, Millis], None],
        on_stall: Callable[[], None],
        on_undeliverable: Callable[[], None],
        takers: Takers,
    ) -> None:
        self.store, self._dispatch, self._context_of, self._note = (
            store,
            dispatch,
            context_of,
            note,
        )
        self._on_stall, self._on_undeliverable = on_stall, on_undeliverable
        self.rows = WorkingSet()
        self._changes = ChangeApplier(self.rows, reaches, takers)
        self.next_token = self._changes.next_token
        self._are_windows_old = False
        self._began = self._decided = 0.0

    async def commit(self, requests: Sequence[Request], *, everywhere: bool) -> BatchResult:
        """Commit one batch; if another process has changed its rows, retry once from fresh ones.

        A request whose changes cannot be made is refused in a further attempt. `everywhere`: look for items to deliver
        in all nodes.

        Raises:
            StoreError: the store could not commit it.
            StaleError: not even from fresh rows.
            Exception: a fault of ours. In each of these cases nothing has been committed.

        """
        spoilt: set[int] = set()
        stale, dispatching = False, self._dispatch.is_on
        while True:
            try:
                with no_longer_behind(self._on_stall):
                    job = partial(self.work_in, requests, everywhere, dispatching, spoilt)
                    return await self.store.batch(job)
            except SpoiltError as problem:
                self.forget()
                spoilt.add(problem.at)
            except UndeliverableError:
                self.forget()
                dispatching = False
                log.exception("dispatch.failed")
                self._on_undeliverable()
            except StaleError:
                self.forget()
                if stale:
                    raise
                stale = True
                log.info("batch.stale", requests=len(requests))
            except BaseException:
                self.forget()
                raise

    def work_in(
        self,
        requests: Sequence[Request],
        everywhere: bool,  # noqa: FBT001
        dispatching: bool,  # noqa: FBT001
        spoilt: set[int],
        tx: Transaction,
    ) -> BatchResult:
        """Do the batch in a transaction, up to its commit."""
        self._began = perf_counter()
        context = self._context_of(self.rows)
        self.rows.begin(tx)
        self._note(tx, context.now)
        if self._are_windows_old:
            self._are_windows_old = False
            self.rows.cache.windows.clear()
        self._changes.begin(context.now, foreign=tx.foreign)
        done = run(
            context,
            self._changes,
            tx,
            requests,
            dispatching=dispatching,
            everywhere=everywhere,
            rest=self._dispatch.rest,
            looked=self._dispatch.looked,
            spoilt=spoilt,
        )
        self._decided = perf_counter()
        return done

    def took(self) -> Took:
        """Return how long the last committed batch took."""
        return Took(self._decided - self._began, perf_counter() - self._decided)

    def reaches_others(self) -> None:
        """Forget which addresses can be reached: that has changed."""
        self._are_windows_old = True

    def forget(self) -> None:
        """Forget all rows; they are loaded again when they are needed."""
        self._changes.forget()

    def shrink(self) -> None:
        """Forget rows until the cache is within its bounds."""
        try:
            self.rows.cache.shrink()
        except Exception:  # the cache is a copy: it is loaded again
            log.exception("cache.failed")
            self.forget()


def may_be_of_one(problem: Exception) -> bool:
    """Return whether one request of a batch may be the cause, so that the others can be decided without it."""
    return isinstance(problem, StaleError | UnfitError) or not isinstance(problem, StoreError)


def refusal_of(problem: Exception, requests: Sequence[Request]) -> Refusal:
    """Return the answer to requests whose batch failed.

    Requests of the clock are decided on fresh rows: if they are stale, one of these rows contradicts the others.
    """
    of_store = isinstance(problem, StoreError) and not isinstance(problem, UnfitError)
    of_clock = any(isinstance(request, Expire) for request in requests)
    if of_store and not (of_clock and isinstance(problem, StaleError)):
        return Refusal.STORE_FAILED
    return Refusal.INTERNAL_FAULT
