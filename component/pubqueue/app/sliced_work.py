"""Long work between two slices: the next slice starts after the notices of the last one are sent, so only those wait."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, cast

from pubqueue.app.boundaries import answer_with
from pubqueue.app.reader import ENDING
from pubqueue.model.decision import Cancelled, Done, Redriven
from pubqueue.model.notices import ToAll, ToEach
from pubqueue.model.records import MessagesEnded
from pubqueue.model.replies import Freed
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.dead_letters import Discard, Redrive
from pubqueue.rules.messages import DropMessages
from pubqueue.rules.moving import MoveWinners
from pubqueue.rules.publish import FeedSlice
from pubqueue.rules.seek import SeekItems
from pubqueue.rules.trimming import TrimItems
from pubqueue.rules.unlock import FreeHeld

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.notify.fan_out import FanOut
    from pubqueue.app.rules import Request
    from pubqueue.model.decision import Decision, Reply
    from pubqueue.model.entities import NodeName

    Place = tuple[type, NodeName]
    Answer = Callable[[Reply], None]


class _Run:
    """A requester that waits for the end of long work. `place` is the node and the kind of the work."""

    def __init__(self, answer: Answer, place: Place, under_way: dict[Place, int]) -> None:
        self._answer = answer
        self._under_way = under_way
        self._place: Place | None = None
        self.move(place)

    def move(self, place: Place | None) -> None:
        """Set the place of the work."""
        for where, by in ((self._place, -1), (place, 1)):
            if where is not None:
                self._under_way[where] = self._under_way.get(where, 0) + by
                if not self._under_way[where]:
                    del self._under_way[where]
        self._place = place

    def __call__(self, reply: Reply) -> None:
        """Answer the requester: the work is done, or the store failed."""
        self.move(None)
        self._answer(reply)


class LongWork:
    """Keeps the next slice of long work until it may run; then submits it.

    Trims, reviews and seeks that another process may have left are restarted from time to time, because their end
    is not reported. If work of the same kind is under way on the node, nothing is restarted.
    """

    def __init__(self, news: FanOut, submit: Callable[[Request, Answer], None]) -> None:
        self._fan_out = news
        self._submit = submit
        self._waiting: dict[int, tuple[Request, Answer]] = {}
        self._count = itertools.count()
        self._under_way: dict[Place, int] = {}

    def go_on(self, decision: Decision, answer: Answer) -> None:
        """Run the next slice; answer the requester after the last one."""
        request = decision.then
        if isinstance(request, TrimItems | ReviewSubscribers | SeekItems):
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
        """Answer all requesters: the service stops."""
        left, self._waiting = self._waiting, {}
        for request, answer in left.values():
            answer_with(answer, at_the_end(request))


def at_the_end(request: Request) -> Reply:
    """Return the answer to work that is not done when the service stops; if begun, it continues at the next start."""
    if isinstance(request, MoveWinners | ReviewSubscribers | TrimItems | SeekItems | FeedSlice):
        return request.reply or Done()
    return so_far(request) or ENDING


def so_far(request: Request) -> Reply | None:
    """Return the answer to work that stops after some of its slices: what these have committed. None if it has no such answer."""
    match request:
        case FreeHeld():
            return Freed(request.node, request.freed)
        case Redrive() if request.after:
            return Redriven(request.node, request.count, request.after)
        case Discard() if request.after:
            return Cancelled(request.node, request.count, through=request.after)
        case DropMessages() if request.count:
            return MessagesEnded((), more=True, count=request.count)
        case _:
            return None
