"""What follows a commit: replies, notices, and rows to repeat."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, cast

import structlog
from msgspec import Struct

from pubqueue.engine.presence_retry import SHOWING
from pubqueue.engine.task import answer_with, apart
from pubqueue.model.decision import DecidedInParts, singly
from pubqueue.model.entities import connection
from pubqueue.model.notices import Deliver, ToEach
from pubqueue.rules.presence import Bounce, Leave

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.batch import BatchResult, Committed
    from pubqueue.engine.dispatch import PendingDispatch, WaitingTakers
    from pubqueue.engine.fan_out import FanOut
    from pubqueue.engine.forwarding import Forwarding
    from pubqueue.engine.observe import Observer, Observers
    from pubqueue.engine.outbox import Outbox
    from pubqueue.engine.presence_retry import Acquaintances, Newcomers
    from pubqueue.engine.reader import LongWork
    from pubqueue.engine.redelivery import Undelivered
    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.entities import Jid, Millis
    from pubqueue.model.notices import News, Notice

    Taken = tuple[Request, Callable[[Reply], None]]


# Acts on a batch that is committed: answers, notices and deliveries first, then the records of this process.


class AfterCommit(Struct):
    """Finishes committed batches. `on_moment` is called with the next time at which a lock, a delay or a lifetime ends."""

    sender: Sender
    dispatch: PendingDispatch
    takers: WaitingTakers
    observers: Observers[Observer]
    undelivered: Undelivered
    acquaintances: Acquaintances
    newcomers: Newcomers
    on_moment: Callable[[Millis | None], None]
    moment: Millis | None = None

    def finish(self, taken: Sequence[Taken], committed: Committed, *, last: bool) -> None:
        """Send the answers, notices and deliveries of a batch, and note what it shows."""
        done = committed.done
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
                unwanted = self.takers.committed(done.taken, done.ended, done.rest)
                self.sender.give_back(unwanted)
        parts: tuple[Sequence[Request], Sequence[Decision]] = requests, done.decisions
        if DecidedInParts in map(type, done.decisions):
            parts = singly(requests, done.decisions)
        self.observers.committed(*parts, deliveries, committed.took)
        with apart("delivery_mark.failed"):
            self.undelivered.sent(done.next_token)
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
        moment = done.soonest
        if not done.exact and (
            moment is None or (self.moment is not None and self.moment < moment)
        ):
            moment = self.moment
        if done.exact or moment != self.moment:  # exact: what ended may be the moment that is known
            self.on_moment(moment)
            self.moment = moment


# What is sent after a commit: the replies in the order of the requests, each before its notices, and the deliveries last.
#
# All of it is committed. So each message has a boundary of its own: if one cannot be sent, all others still are.

log = structlog.get_logger(__name__)


class Sender:
    """Sends answers and notices, and returns items that could not be sent to the queue, by `submit`.

    `service` is the address of the service itself: a connection of one of its accounts never comes back.
    """

    def __init__(
        self,
        outbox: Outbox,
        forwarding: Forwarding,
        fan_out: FanOut,
        long_work: LongWork,
        undelivered: Undelivered,
        *,
        service: Jid,
        submit: Callable[[Request, Callable[[Reply], None]], None],
    ) -> None:
        self.outbox, self._forwarding, self._ending = outbox, forwarding, forwarding.ending
        self._fan_out, self._long_work, self._undelivered = fan_out, long_work, undelivered
        self._service, self._submit = service, submit

    def answer(self, taken: Sequence[Taken], decisions: Sequence[Decision], *, last: bool) -> None:
        """Answer the requests. Work that has more slices continues; after `last`, it continues at the next start."""
        for (_, answer), decision in zip(taken, decisions, strict=True):
            then = None if last else decision.then
            if then is None:
                answer_with(answer, decision.reply)
            if decision.notices:
                self.send(decision.notices)
            if then is not None:
                with apart("work.failed"):
                    self._long_work.go_on(decision, answer)
            for work in () if last else decision.beside:
                self._submit(cast("Request", work), lambda _reply: None)

    def send(self, notices: Sequence[Notice | News]) -> None:
        """Send notices; an item that could not be sent returns to the queue, without counting a failure.

        An item that its holder may have already stays locked, and is sent once more.
        """
        try:
            own = self._fan_out.keep(notices)
            for notice in own:  # deliveries are for addresses of this process alone
                if notice.__class__ is not Deliver and (
                    notice.__class__ is ToEach or self._ending in notice.to
                ):
                    own = self._forwarding.own(own)
                    break
            for unsent in self.outbox.send(own):
                if not isinstance(unsent, Deliver):
                    continue
                if not unsent.again:
                    self.give_back([unsent])
                elif self.outbox.claims(unsent.to) and not self._is_connection(unsent.to):
                    self._undelivered.fail()
        except Exception:  # the boundary between the notices of two requests
            log.exception("notices.failed")

    def give_back(self, deliveries: Sequence[Deliver]) -> None:
        """Return the items of deliveries that have no receiver to their queues."""
        for one in deliveries:
            back = Bounce(one.to, one.item.seq, one.item.token, gone=False)
            self._submit(back, lambda _reply: None)

    def _is_connection(self, address: Jid) -> bool:
        """Return whether it is a connection of an account of the service: when that is gone, its items are released."""
        return connection(address, self._service) is not None
