"""The three levels, the pauses between repetitions, and the reports about a message."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.wire.times import Span, span

if TYPE_CHECKING:
    from datetime import datetime


class Level(StrEnum):
    """The delivery guarantee of a message (sections 2.1 to 2.3)."""

    UNACKNOWLEDGED = "unacknowledged"
    """Sent once, without an answer: delivered at most once."""

    ACKNOWLEDGED = "acknowledged"
    """Sent until it is answered: delivered at least once."""

    ASSURED = "assured"
    """Stored by the receiver first, and handed on when the sender asks for that: delivered exactly once."""


def level_of(level: Level | str) -> Level:
    """Return the level with this name; raise ConfigurationError, a ValueError, if there is none."""
    try:
        return Level(level)
    except ValueError:
        words = ", ".join(Level)
        raise ConfigurationError(
            f"level is {level!r}; it takes one of {words}.", argument="level"
        ) from None


class Step(StrEnum):
    """The progress of a pending message."""

    ACKNOWLEDGED = "acknowledged"
    """It may have been sent; the receiver has not answered."""

    ASSURED = "assured"
    """It may have been sent; the receiver has not confirmed that it has stored it."""

    RECEIVED = "received"
    """The receiver has stored it; it is unknown whether it was delivered."""


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """When an unanswered step is sent again, with the same bytes and the same id.

    The first repetition comes after `first` seconds; each further pause is `factor` times as long as the one before, up
    to `longest` seconds. A step is sent up to `attempts` times in total. Times are seconds or timedeltas. Raises
    ValueError for a number that is out of range.
    """

    first: float
    factor: float
    longest: float
    attempts: int

    def __init__(
        self, first: Span = 5.0, factor: float = 2.0, longest: Span = 60.0, attempts: int = 8
    ) -> None:
        if type(attempts) is not int or attempts < 1:
            raise ValueError(f"attempts is {attempts!r}; it takes a whole number from 1.")
        if not factor >= 1:
            raise ValueError(f"factor is {factor!r}; it takes a number from 1.")
        for name, value in (("first", span("first", first)), ("longest", span("longest", longest))):
            if value <= 0:
                raise ValueError(f"{name} is {value!r}; it takes a time above 0.")
            object.__setattr__(self, name, value)  # it is frozen
        object.__setattr__(self, "factor", float(factor))
        object.__setattr__(self, "attempts", attempts)

    def pause(self, sent: int) -> float:
        """Return how many seconds to wait for an answer after the `sent`th attempt."""
        return min(self.longest, self.first * self.factor ** min(sent - 1, 64))


@dataclass(frozen=True, slots=True)
class Sent:
    """A message whose last step is answered; `attempts` is the total over all its steps."""

    to: str
    msg_id: str
    level: Level
    attempts: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that has no final answer yet; `since` is when it was first submitted, `message` its text."""

    to: str
    msg_id: str
    level: Level
    step: Step
    since: datetime
    message: str = field(default="", repr=False)
