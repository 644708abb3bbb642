"""Long work between two slices: it goes on when the news of its last slice have left, so that no more than those wait."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, cast

from pubqueue.app.boundaries import answer_with
from pubqueue.app.reader import ENDING
from pubqueue.core.decision import Cancelled, Done, Redriven
from pubqueue.core.nodes.subscriptions.review import ReviewSubscribers
from pubqueue.core.nodes.trimming import TrimItems
from pubqueue.core.notices import ToAll, ToEach
from pubqueue.core.queue.cancel import Discard
from pubqueue.core.queue.force_unlock import FreeHeld
from pubqueue.core.queue.redrive import Redrive
from pubqueue.core.reading.summaries import Freed
from pubqueue.core.transactions.moving import MoveWinners

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.notify.fan_out import FanOut
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Decision, Reply
    from pubqueue.core.model import NodeName

    Place = tuple[type, NodeName]
    Answer = Callable[[Reply], None]


class _Run:
    """A requester that waits for the end of long work, until it is answered; `place` is what is worked on."""

    def __init__(self, answer: Answer, place: Place, under_way: dict[Place, int]) -> None:
        self._answer = answer
        self._under_way = under_way
        self._place: Place | None = None
        self.move(place)

    def move(self, place: Place | None) -> None:
        """Be at work there from now on."""
        for where, by in ((self._place, -1), (place, 1)):
            if where is not None:
                self._under_way[where] = self._under_way.get(where, 0) + by
                if not self._under_way[where]:
                    del self._under_way[where]
        self._place = place

    def __call__(self, reply: Reply) -> None:
        """Answer: it has come to its end, or met a store in trouble."""
        self.move(None)
        self._answer(reply)


class LongWork:
    """Keeps the next slice of long work until it may run; then it is submitted.

    Trims and reviews that another process left are restarted from time to time, because their end
    is not reported. If one of the kind is under way on the node, there is nothing to restart.
    """

    def __init__(self, news: FanOut, submit: Callable[[Request, Answer], None]) -> None:
        self._fan_out = news
        self._submit = submit
        self._waiting: dict[int, tuple[Request, Answer]] = {}
        self._count = itertools.count()
        self._under_way: dict[Place, int] = {}

    def go_on(self, decision: Decision, answer: Answer) -> None:
        """Run the next slice; the requester is answered after the last one."""
        request = decision.then
        if isinstance(request, TrimItems | ReviewSubscribers):
            place = type(request), request.node
            if isinstance(answer, _Run):
                answer.move(place)
            elif request.reply is None and place in self._under_way:
                answer(Done())
                return
            else:
                answer = _Run(answer, place, self._under_way)
        nodes = {one.what.node for one in decision.notices if isinstance(one, ToEach | ToAll)}
        number = next(self._count)
        self._waiting[number] = cast("Request", decision.then), answer
        self._fan_out.when_sent(nodes, partial(self._sent, number))

    def _sent(self, number: int) -> None:
        taken = self._waiting.pop(number, None)
        if taken is not None:
            self._submit(*taken)

    def end(self) -> None:
        """Answer all that wait: the service stops."""
        left, self._waiting = self._waiting, {}
        for request, answer in left.values():
            answer_with(answer, at_the_end(request))


def at_the_end(request: Request) -> Reply:
    """Return the answer to what is not done when the service stops: what is committed goes on at the next start."""
    if isinstance(request, MoveWinners | ReviewSubscribers | TrimItems):
        return request.reply or Done()
    return so_far(request) or ENDING


def so_far(request: Request) -> Reply | None:
    """Return the answer to work that does not go on, if some of its slices are done: it is true of what is committed."""
    match request:
        case FreeHeld():
            return Freed(request.node, request.freed)
        case Redrive() if request.after:
            return Redriven(request.node, request.count, request.after)
        case Discard() if request.after:
            return Cancelled(request.node, request.count, through=request.after)
        case _:
            return None
