"""How long a worker waits for what."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds; the defaults suit a queue across a network."""

    login: float = 30
    """For a session, before the login counts as failed."""

    answer: float = 10
    """For an answer and its notification, before it is asked again."""

    patience: float = 300
    """For one retract or unlock in all, over lost answers and reconnects."""

    refresh: float = 60
    """Of silence, after which the worker subscribes again, in case it has been forgotten."""

    backoff_min: float = 0.5
    backoff_max: float = 30
    """Between two attempts to reconnect; doubling, with jitter."""

    parting: float = 5
    """For giving back what is in hand at the end."""

    def backoff(self, attempt: int) -> float:
        """Return how long to wait after the `attempt`th failure in a row."""
        longest = min(self.backoff_max, self.backoff_min * float(2 ** min(attempt, 16)))
        return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads the workers, hides nothing
