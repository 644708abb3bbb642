"""Acts on a batch that is committed: answers, notices and deliveries first, then the records of this process."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.app.boundaries import apart
from pubqueue.app.notify.presence_retry import SHOWING
from pubqueue.model.decision import singly
from pubqueue.rules.presence import Leave

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.batch import BatchResult
    from pubqueue.app.dispatch.pending import PendingDispatch
    from pubqueue.app.dispatch.takers import WaitingTakers
    from pubqueue.app.notify.newcomers import Newcomers
    from pubqueue.app.notify.presence_retry import Acquaintances
    from pubqueue.app.notify.sending import Sender
    from pubqueue.app.notify.undelivered import Undelivered
    from pubqueue.app.rules import Request
    from pubqueue.app.watch.observers import Observer, Observers
    from pubqueue.app.watch.watching import Took
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Millis
    from pubqueue.model.notices import Notice

    Taken = tuple[Request, Callable[[Reply], None]]


class AfterCommit(Struct):
    """Finishes committed batches. `on_moment` is called with the next time at which a lock, a delay or a lifetime ends.

    `took` and `next_token` return how long the last commit took, and the token of the next lock.
    """

    sender: Sender
    dispatch: PendingDispatch
    takers: WaitingTakers
    observers: Observers[Observer]
    undelivered: Undelivered
    acquaintances: Acquaintances
    newcomers: Newcomers
    took: Callable[[], Took]
    next_token: Callable[[], int]
    on_moment: Callable[[Millis | None], None]
    moment: Millis | None = None

    def finish(self, taken: Sequence[Taken], done: BatchResult, *, last: bool) -> None:
        """Send the answers, notices and deliveries of a batch, and note what it shows."""
        self.sender.answer(taken, done.decisions, last=last)
        requests = [request for request, _ in taken]
        with apart("learn.failed"):
            self._learn(requests, done)
        self.dispatch.committed(done.rest, done.looked)
        if done.deliveries:
            self.sender.send(done.deliveries)
        deliveries: Sequence[Notice] = done.deliveries
        if done.taken:
            deliveries = (*deliveries, *chain.from_iterable(done.taken.values()))
        if done.taken or self.takers:
            with apart("takes.failed"):
                self.takers.committed(done.taken, done.ended, done.rest)
        self.observers.committed(*singly(requests, done.decisions), deliveries, self.took())
        with apart("delivery_mark.failed"):
            self.undelivered.sent(self.next_token())
        with apart("moment.failed"):
            self._note_moment(done)

    def _learn(self, requests: Sequence[Request], done: BatchResult) -> None:
        """Remember which accounts have rights or subscriptions here, for the time when the store cannot be asked."""
        for request, decision in zip(requests, done.decisions, strict=True):
            if type(request) in SHOWING:
                self.acquaintances.learn(decision)
            elif type(request) is Leave:
                self.newcomers.left(request.jid)
        for jid in {notice.to for notice in done.deliveries}:
            self.acquaintances.meet(jid)
        for taken in done.taken.values():
            self.acquaintances.meet(taken[0].to)

    def _note_moment(self, done: BatchResult) -> None:
        if done.exact:
            self.moment = done.soonest
        elif done.soonest is not None:
            self.moment = done.soonest if self.moment is None else min(self.moment, done.soonest)
        self.on_moment(self.moment)
