"""Repeats deliveries that were committed and may not have been sent."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.engine.ports import Instance, StoreError
from pubqueue.engine.writes import delivered_mark
from pubqueue.model.decision import Resent
from pubqueue.model.entities import Millis, seconds
from pubqueue.rules.unlock import Resend

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.ports import Store, ThisProcess, Transaction
    from pubqueue.model.decision import Reply

    Submit = Callable[[Resend, Callable[[Reply], None]], None]


# Repeats deliveries that a crash after the commit, or a broken stream, may have lost.
#
# A stored lock token marks which deliveries have been sent: those of all older locks. The mark is
# written now and then, with a batch that comes anyway, and covers deliveries sent some seconds
# before, so that the bytes have left. When the process starts and an address can be reached, items
# locked under later tokens are sent again to their holders, under the same tokens, unless no earlier
# process can have left any. So are those sent in the last seconds before a stream broke, when there
# is another.
#
# Each of several processes on a store has a mark of its own, for the deliveries of its own locks. If
# one dies, another process repeats its unsent deliveries, with all that was locked since: more than
# necessary, but no item is worked twice.

RETRY: Final = 1.0
"""Seconds until a retry after the store has failed."""

LAG: Final = seconds(5)
"""The minimum time between two writes; deliveries sent before the last one have left by the next."""


class DeliveredMark:
    """Records which deliveries of a process have been sent."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._sent = self._left = self._sure = 0
        self._sent_at = Millis(0)
        self._at: Millis | None = None

    def sent(self, next_token: int, now: Millis) -> None:
        """Record that the deliveries of all locks below this token were sent; 0: it is not known."""
        if next_token > self._sent:
            self._sent, self._sent_at = next_token, now

    def unsure(self, now: Millis) -> tuple[int, int]:
        """Return between which tokens deliveries may be lost with a stream that breaks now.

        Those sent by the last write may have been sent just before it.
        """
        long_ago = abs(now - self._sent_at) >= LAG
        return self._sent if long_ago else self._sure, self._sent

    def note(self, tx: Transaction, now: Millis, *, flowing: bool) -> None:
        """Write the mark, if it is due. While notices are not `flowing`, nothing is sent."""
        if self._at is None:
            self._at = now
            if self._instance.follows_none:
                self.note_all(tx)
        elif flowing and abs(now - self._at) >= LAG:
            self._write(tx, self._left)
            self._at, self._sure, self._left = now, self._left, self._sent

    def note_all(self, tx: Transaction) -> None:
        """Record that everything was sent: the process has locked nothing, or all was sent and the streams have ended."""
        self._write(tx, tx.number("token", 0))

    def _write(self, tx: Transaction, token: int) -> None:
        mine = delivered_mark(self._instance.number)
        if token > (known := tx.number(mine, 0)):
            tx.number(mine, token - known)


class Redelivery:
    """Repeats, slice by slice, deliveries that a process may not have sent, or a broken stream lost.

    `done` is set while there is nothing more to send; at first only if the instance follows none.
    """

    def __init__(
        self, submit: Callable[[Resend, Callable[[Reply], None]], None], instance: Instance
    ) -> None:
        self._submit = submit
        self._first = Resend(instance=instance.number)
        self._next: Resend | None = self._first
        self._asked = self._failed = False
        self.done = asyncio.Event()
        if instance.follows_none:
            self._next = None
            self.done.set()

    def lose(self, span: tuple[int, int]) -> None:
        """Note that a stream broke: deliveries under these tokens are sent again when there is a stream."""
        if self._next is not None:
            self._failed = True
            if self._first.span is not None:
                self._first = replace(self._first, span=(self._first.span[0], span[1]))
        elif span[0] < span[1]:
            self._begin(replace(self._first, span=span))

    def go_on(self) -> None:
        """Send the next slice, if there is one: an address can be reached."""
        if self._next is not None and not self._asked:
            self._asked = True
            self._failed = self._failed and self._next is not self._first
            self._submit(self._next, self._take)

    def fail(self) -> None:
        """Note that a delivery could not be sent after all; when an address can be reached again, all are sent again."""
        self._failed = True
        if self._next is None:
            self._begin(self._first)

    def _begin(self, first: Resend) -> None:
        self._first = self._next = first
        self.done.clear()

    def _take(self, reply: Reply) -> None:
        self._asked = False
        if not isinstance(reply, Resent):
            asyncio.get_running_loop().call_later(RETRY, self.go_on)
            return
        if self._next is self._first:
            self._first = replace(self._first, span=reply.span)
        if reply.after is not None:
            self._next = replace(self._first, span=reply.span, after=reply.after)
            self.go_on()
        elif self._failed:
            self._next = self._first
        else:
            self._next = None
            self.done.set()


# Repeats deliveries that this process, or one that died, has committed and may not have sent.
#
# The store has a mark of each process's progress (`redelivery.DeliveredMark`); later deliveries are
# sent in slices.


class Undelivered:
    """Keeps the marks of one process, and repeats deliveries of others that died. `flows` while an address can be reached."""

    def __init__(
        self, store: Store, process: ThisProcess, submit: Submit, clock: Callable[[], Millis]
    ) -> None:
        self._store = store
        self._process = process
        self._submit = submit
        self._clock = clock
        self.begin()
        self._others: list[Redelivery] = []
        self._redeliveries: list[tuple[Millis, Redelivery]] = []
        self.flows = False

    def begin(self) -> None:
        """Begin under the number that this process has now."""
        self._mark = DeliveredMark(self._process.instance)
        self._own = Redelivery(self._submit, self._process.instance)

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
            await self._store.instances.leave(self._process.instance.number)

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
