"""The life of an item, as one table.

The table is total over state x event. A cell is the next state, GONE when the row disappears, or
None if the event cannot happen in the state (the rules refuse it before, and the store's guards
would too). A RELEASE or FAIL with a pause continues by POSTPONE to DELAYED in the same step. A
delayed item can be locked only if it is delayed for the sake of one subscriber and goes to another.
An item that is DONE is not in its queue any more, but can be brought back.

The table also has the counters: a failed ending raises `failed`, a release raises `released`, a
delivery raises `acquired`. Only `failed` leads to DEAD.
"""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final, Literal

from pubqueue.core.model import Millis, State, later, seconds

if TYPE_CHECKING:
    from pubqueue.core.model import Item, NodeConfig


@unique
class Transition(Enum):
    """What can happen to an item."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    LOCK = auto()
    """A subscriber with a free window gets it."""
    RETRACT = auto()
    """It is done, or withdrawn by an account that may withdraw it."""
    RELEASE = auto()
    """Its holder unlocked it, or a delivery bounced; no failure is counted."""
    FAIL = auto()
    """Its lock timed out or its holder left."""
    GIVE_UP = auto()
    """It failed once too often, or its time to live ended."""
    POSTPONE = auto()
    """It is delayed."""
    RIPEN = auto()
    """Its waiting time is over."""
    REVIVE = auto()
    """An owner redrives it, or brings back what was done; in a dead-letter node it need not be DEAD."""
    FINISH = auto()
    """It is done, in a queue that keeps what is done."""


GONE: Final = "gone"
Next = State | Literal["gone"] | None

# fmt: off
_TABLE: Final[dict[State, tuple[Next, ...]]] = {
    #                LOCK           RETRACT  RELEASE        FAIL           GIVE_UP     POSTPONE        RIPEN         REVIVE        FINISH
    State.QUEUED:  (State.LOCKED,  GONE,    None,          None,          State.DEAD, State.DELAYED,  None,         State.QUEUED, State.DONE),
    State.LOCKED:  (None,          GONE,    State.QUEUED,  State.QUEUED,  State.DEAD, None,           None,         None,         State.DONE),
    State.DELAYED: (State.LOCKED,  GONE,    None,          None,          State.DEAD, None,           State.QUEUED, State.QUEUED, State.DONE),
    State.DEAD:    (None,          GONE,    None,          None,          None,       None,           None,         State.QUEUED, State.DONE),
    State.DONE:    (None,          GONE,    None,          None,          None,       None,           None,         State.QUEUED, None),
}
# fmt: on

NEXT: Final[dict[tuple[State, Transition], Next]] = {
    (state, event): after
    for state, row in _TABLE.items()
    for event, after in zip(Transition, row, strict=True)
}


def backoff(config: NodeConfig, times: int) -> Millis:
    """Return how long to wait before the next try: none for 0, then doubling between the bounds."""
    if times <= 0:
        return Millis(0)
    doubled: int = config.backoff_min << min(times - 1, 30)
    return seconds(min(config.backoff_max, doubled))


def waiting(now: Millis, pause: Millis) -> tuple[State, Millis | None]:
    """Return the state of an item that may be delivered after `pause`, and when that is."""
    if pause <= 0:
        return State.QUEUED, None
    return State.DELAYED, later(now, pause)


def exhausted(item: Item, config: NodeConfig) -> bool:
    """Return whether one more failure exceeds the maximum."""
    return item.failed + 1 >= config.max_failures
