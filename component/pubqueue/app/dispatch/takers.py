"""Requesters that wait for the answer to a take: until there are items, the wait is over, or the requester goes.

The windows are in `working_set.open_windows`, where batches use them. The answers are kept here, on the event loop, so the
end of a wait needs no batch. An item that is delivered to a window while its requester goes is released, without counting a
failure.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.app.boundaries import answer_with
from pubqueue.model.decision import Refused, Taken
from pubqueue.rules.presence import Bounce

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Container, Mapping, Sequence

    from pubqueue.model.decision import Refusal, Reply
    from pubqueue.model.entities import Jid, NodeName
    from pubqueue.model.notices import Deliver
    from pubqueue.rules.take import Take

    Answer = Callable[[Reply], None]


class _Waiting(Struct):
    """A requester: whether its take is decided, and whether its wait is over."""

    take: Take
    answer: Answer
    is_decided: bool = False
    is_over: bool = False
    timer: TimerHandle | None = None


class WaitingTakers:
    """The requesters by the numbers of their takes. `give_back` releases an item."""

    def __init__(self, give_back: Callable[[Bounce], None]) -> None:
        self._give_back = give_back
        self._numbers = itertools.count(1)
        self._all: dict[int, _Waiting] = {}
        self._over: dict[int, None] = {}
        """Takes that are answered with the next commit, with or without items."""
        self._of_address: dict[Jid, dict[int, None]] = {}
        self._of_account: Counter[Jid] = Counter()

    def __contains__(self, number: object) -> bool:
        """Return whether the take still waits."""
        return number in self._all

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._all)

    def of(self, account: Jid) -> tuple[int, int]:
        """Return how many takes of the account wait, and how many in total."""
        return self._of_account[account], len(self._all)

    def number(self) -> int:
        """Return a number for a take."""
        return next(self._numbers)

    def add(self, take: Take, answer: Answer) -> tuple[Take, Answer]:
        """Add a take; return the request and the answer function to submit in its place."""
        if not take.number:
            take = replace(take, number=self.number())
        number, by = take.number, take.by
        one = self._all[number] = _Waiting(take, answer)
        self._of_address.setdefault(by.jid, {})[number] = None
        self._of_account[by.account] += 1
        if take.wait:
            loop = asyncio.get_running_loop()
            one.timer = loop.call_later(take.wait / 1000, self._end_wait, number)
        else:
            one.is_over = True
        return take, partial(self._decided, number)

    def _decided(self, number: int, reply: Reply) -> None:
        """Answer a take that is refused; let any other one wait from now on."""
        one = self._all.get(number)
        if one is None:
            return
        if not isinstance(reply, Taken):
            self._answer(number, reply)
            return
        one.is_decided = True
        if one.is_over:
            self._over[number] = None

    def _end_wait(self, number: int) -> None:
        one = self._all.get(number)
        if one is None:
            return
        one.is_over = True
        if one.is_decided:  # else it is answered with the batch that decides it
            self._answer(number, Taken(one.take.node))

    def withdraw(self, number: int) -> None:
        """End a take whose requester does not wait any more."""
        if (one := self._all.get(number)) is not None:
            self._answer(number, Taken(one.take.node))

    def left(self, address: Jid) -> None:
        """End the takes of an address that has gone."""
        for number in tuple(self._of_address.get(address, ())):
            self.withdraw(number)

    def end(self) -> None:
        """Answer all takes: the service stops."""
        for number in tuple(self._all):
            self.withdraw(number)

    def committed(
        self,
        taken: Mapping[int, Sequence[Deliver]],
        ended: Mapping[int, Refusal],
        rest: Container[NodeName],
    ) -> None:
        """Answer takes that were served or ended in a batch; `rest` are the nodes that will be looked at again at once."""
        for number, deliveries in taken.items():
            if number in self._all:
                items = tuple((one.item, one.payload) for one in deliveries)
                self._answer(number, Taken(deliveries[0].item.node, items))
            else:
                for one in deliveries:
                    self._give_back(Bounce(one.to, one.item.seq, one.item.token, gone=False))
        for number, refusal in ended.items():
            if number in self._all:
                self._answer(number, Refused(refusal))
        for number in tuple(self._over):
            if self._all[number].take.node not in rest:
                self.withdraw(number)

    def _answer(self, number: int, reply: Reply) -> None:
        """Answer, and forget the requester."""
        one = self._all.pop(number)
        self._over.pop(number, None)
        address, account = one.take.by.jid, one.take.by.account
        del self._of_address[address][number]
        if not self._of_address[address]:
            del self._of_address[address]
        self._of_account[account] -= 1
        if not self._of_account[account]:
            del self._of_account[account]
        if one.timer is not None:
            one.timer.cancel()
        answer_with(one.answer, reply)
