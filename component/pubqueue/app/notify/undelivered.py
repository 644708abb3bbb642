"""Repeats deliveries that this process, or one that died, has committed and may not have sent.

The store has a mark of each process's progress (`redelivery.DeliveredMark`); later deliveries are
sent in slices.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pubqueue.app.notify.redelivery import LAG, DeliveredMark, Redelivery
from pubqueue.app.store.ports import Instance, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.store.ports import Store, Transaction
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Millis
    from pubqueue.rules.unlock import Resend

    Submit = Callable[[Resend, Callable[[Reply], None]], None]


class Undelivered:
    """Keeps the marks of one process, and repeats deliveries of others that died. `flows` while an address can be reached."""

    def __init__(
        self, store: Store, instance: Instance, submit: Submit, clock: Callable[[], Millis]
    ) -> None:
        self._store = store
        self._submit = submit
        self._clock = clock
        self.serve_as(instance)
        self._others: list[Redelivery] = []
        self._redeliveries: list[tuple[Millis, Redelivery]] = []
        self.flows = False

    def serve_as(self, instance: Instance) -> None:
        """Set the number of this process among those on the store; called before the work begins."""
        self._instance = instance
        self._mark = DeliveredMark(instance)
        self._own = Redelivery(self._submit, instance)

    def go_on(self) -> None:
        """Send the deliveries to repeat: an address can be reached."""
        for one in (self._own, *self._others, *self._lately()):
            one.go_on()

    def fail(self) -> None:
        """Note that a repeated delivery could not be sent."""
        for one in (self._own, *self._others):
            one.fail()

    def stream_broke(self) -> None:
        """Note that a stream of a face broke: deliveries of its last seconds are sent again with the next stream."""
        self._own.lose(self._mark.unsure(self._clock()))
        for one in (*self._others, *self._lately()):
            one.fail()

    def sent(self, next_token: int) -> None:
        """Record that the deliveries of all locks below this token were sent; 0: it is not known."""
        self._mark.sent(next_token, self._clock())

    def note(self, tx: Transaction, now: Millis) -> None:
        """Record the progress of this process, if it is time to, and nothing is to be sent again."""
        self._mark.note(tx, now, flowing=self.flows and self._own.done.is_set())

    async def note_all_delivered(self) -> None:
        """Note that all deliveries have been sent: the faces have closed their streams in order.

        Not while something is still to be sent again: that is for the next start, or for another process.
        """
        if not self._own.done.is_set():
            return
        with contextlib.suppress(StoreError):  # then some are sent again at the next start
            await self._store.batch(self._mark.note_all)
            await self._store.instances.leave(self._instance.number)

    async def act_for(self, number: int) -> None:
        """Repeat the deliveries that the process of this number, which has died, may not have sent; record them.

        Raises:
            StoreError: that could not be recorded.

        """
        redelivery = Redelivery(self._submit, Instance(number, died=True))
        self._others.append(redelivery)
        try:
            if self.flows:
                redelivery.go_on()
            await redelivery.done.wait()
        finally:
            self._others.remove(redelivery)
        self._redeliveries.append((self._clock(), redelivery))
        await self._store.batch(DeliveredMark(Instance(number)).note_all)
        await self._store.instances.leave(number)

    def _lately(self) -> list[Redelivery]:
        """Return the tokens of other processes' deliveries that this one has sent in the last seconds, or has to repeat."""
        now = self._clock()
        self._redeliveries = [
            (at, one)
            for at, one in self._redeliveries
            if abs(now - at) < LAG or not one.done.is_set()
        ]
        return [one for _, one in self._redeliveries]
