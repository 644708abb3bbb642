"""How long a worker waits for what."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds; the defaults suit a queue across a network."""

    login: float = 30
    """For a session, before the login counts as failed."""

    answer: float = 5
    """For an answer and its notification, before it is asked again. No more than this passes between
    the return of a service and a repeated question."""

    patience: float = 300
    """For one retract or unlock in all, over lost answers and reconnects."""

    refresh: float = 60
    """Of silence, after which the worker subscribes again, in case it has been forgotten. Also between
    two questions for the service's time, while there is something in hand."""

    backoff_min: float = 0.5
    backoff_max: float = 30
    """Between two attempts to reconnect; doubling, with jitter."""

    parting: float = 5
    """For giving back what is in hand at the end."""

    def backoff(self, attempt: int) -> float:
        """Return how long to wait after the `attempt`th failure in a row."""
        return self._doubling(attempt, self.backoff_max)

    def pause(self, asked: int) -> float:
        """Return how long to wait before a question is asked again that was `asked` so often."""
        return self._doubling(asked, min(self.answer, self.backoff_max))

    def _doubling(self, failures: int, longest: float) -> float:
        wait = min(longest, self.backoff_min * float(2 ** min(failures, 16)))
        return wait * random.uniform(0.5, 1)  # noqa: S311 - spreads the workers, hides nothing
