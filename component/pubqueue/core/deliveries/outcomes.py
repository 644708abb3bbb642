"""What an answer to a delivery, an error, or silence does to its item and to its subscriber: one table.

An answer confirms that the delivery has arrived, never that work is done: that stays with the lock.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from msgspec import Struct

from pubqueue.core.model import Level


class Step(Enum):
    """What was sent last and is not answered."""

    ACKNOWLEDGED = auto()
    """The message, which is used when it is answered."""
    ASSURED = auto()
    """The message, which waits for `deliver`."""
    DELIVER = auto()
    """That the message may be used."""


class DeliveryAnswer(Enum):
    """What came back."""

    RESULT = auto()
    """A result without `received`."""
    RECEIVED = auto()
    """A result with `received` for this very message."""
    GONE = auto()
    """The address does not exist any more: its client or its server says so."""
    FAILED = auto()
    """Any other error: the address cannot take it now."""
    UNABLE = auto()
    """The client refuses the level: not-allowed, feature-not-implemented."""
    SILENCE = auto()
    """All attempts of the step are used up without an answer."""


class Then(Enum):
    """What happens to the delivery."""

    IGNORE = auto()
    """It is as if nothing had come."""
    END = auto()
    """It has arrived: the item stays locked, and nothing more is sent."""
    DELIVER = auto()
    """`deliver` is sent; the item stays locked."""
    MESSAGE = auto()
    """It is sent as a message, under the same token; so are later ones until the resource comes again."""
    BOUNCE = auto()
    """It has come back: the item is free, and others get it."""
    GIVE_UP = auto()
    """So have all that are unanswered by the subscriber."""


class Place(Enum):
    """What happens to the subscription."""

    STAYS = auto()
    ENDS = auto()
    """It ends, as after a bounce."""
    PASSED_OVER = auto()
    """It gets nothing for a while."""
    SILENCED = auto()
    """It gets nothing until its worker shows itself (docs/decisions/0039)."""


class Outcome(Struct, frozen=True, gc=False):
    """What follows. The worker is never blamed: no failure of the item is counted."""

    then: Then
    place: Place = Place.STAYS


IGNORED: Final = Outcome(Then.IGNORE)
ARRIVED: Final = Outcome(Then.END)
ERRORS: Final = {
    DeliveryAnswer.GONE: Outcome(Then.BOUNCE, Place.ENDS),
    DeliveryAnswer.FAILED: Outcome(Then.BOUNCE, Place.PASSED_OVER),
    DeliveryAnswer.UNABLE: Outcome(Then.MESSAGE),
    DeliveryAnswer.SILENCE: Outcome(Then.GIVE_UP, Place.SILENCED),
}

OUTCOMES: Final = {
    (Step.ACKNOWLEDGED, DeliveryAnswer.RESULT): ARRIVED,
    (Step.ACKNOWLEDGED, DeliveryAnswer.RECEIVED): ARRIVED,
    (Step.ASSURED, DeliveryAnswer.RESULT): IGNORED,
    (Step.ASSURED, DeliveryAnswer.RECEIVED): Outcome(Then.DELIVER),
    (Step.DELIVER, DeliveryAnswer.RESULT): ARRIVED,
    (Step.DELIVER, DeliveryAnswer.RECEIVED): ARRIVED,
} | {(step, answer): outcome for step in Step for answer, outcome in ERRORS.items()}
"""Total: every step with every kind of answer."""

FIRST: Final = {Level.ACKNOWLEDGED: Step.ACKNOWLEDGED, Level.ASSURED: Step.ASSURED}
"""The first step of each level that has steps."""


class Repeating(Struct, frozen=True, gc=False):
    """How a step is repeated: sendings in all, seconds to the first repetition, and the longest pause."""

    attempts: int = 4
    first: float = 5.0
    longest: float = 60.0

    def pause(self, sendings: int) -> float:
        """Return the seconds to wait for an answer after so many sendings: each time twice as long."""
        doublings = min(sendings - 1, 30)
        return float(min(self.longest, self.first * (1 << doublings)))


USUAL: Final = Repeating()
