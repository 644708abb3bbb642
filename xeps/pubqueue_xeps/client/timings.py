"""The timeouts and intervals of a worker or publisher."""

import random
from dataclasses import dataclass

from pubqueue_xeps.wire.times import Span, span


@dataclass(frozen=True, slots=True, init=False)
class Timings:
    """Timeouts and intervals, in seconds or as timedeltas; the defaults suit a queue across a network."""

    login: float
    """How long to wait for a session before the login counts as failed: 30."""

    answer: float
    """How long to wait for an answer and its notification before the request is repeated: 5. This is also the longest
    time between the return of a service and a repeated request."""

    patience: float
    """The limit for one retract or unlock in total, across lost answers and reconnects: 300."""

    refresh: float
    """The silence after which the worker subscribes again, in case the service has lost the subscription: 60. Also the
    interval between two requests for the service's time, while items are in hand."""

    backoff_min: float
    backoff_max: float
    """The pause between two attempts to reconnect, from 0.5 to 30; it doubles, with jitter."""

    parting: float
    """How long releasing the items in hand may take at the end: 5."""

    stall: float
    """How long the event loop may be blocked before the worker logs which handler blocks it, and how long the server may
    take to read what was sent before that is logged: 2."""

    def __init__(
        self,
        *,
        login: Span = 30,
        answer: Span = 5,
        patience: Span = 300,
        refresh: Span = 60,
        backoff_min: Span = 0.5,
        backoff_max: Span = 30,
        parting: Span = 5,
        stall: Span = 2,
    ) -> None:
        given = locals().copy()
        for name in self.__slots__:
            object.__setattr__(self, name, span(name, given[name]))  # it is frozen

    def backoff(self, attempt: int) -> float:
        """Return the pause after the `attempt`th failure in a row."""
        return self._doubling(attempt, self.backoff_max)

    def pause(self, asked: int) -> float:
        """Return the pause before repeating a request that was sent `asked` times."""
        return self._doubling(asked, min(self.answer, self.backoff_max))

    def _doubling(self, failures: int, longest: float) -> float:
        wait = min(longest, self.backoff_min * float(2 ** min(failures, 16)))
        return wait * random.uniform(0.5, 1)  # noqa: S311 - spreads the workers, hides nothing
