"""The life of an item, as one table.

Every cell of state x event is there: the next state, GONE when the row disappears, or None where
the event cannot meet the state (the rules refuse before it comes to that, and the store's guards
hold). A RELEASE or FAIL with a pause leads on by POSTPONE to DELAYED in the same step. A delayed item
can be locked only when it waits for the sake of one subscriber and goes to another.

What the two counters do stands beside it: a failed ending raises `failed`; a release raises
`released`; being handed out raises `acquired`. Only `failed` leads to DEAD.
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
    """It is done, or withdrawn by who may."""
    RELEASE = auto()
    """Its holder unlocked it, a delivery bounced: nobody's fault."""
    FAIL = auto()
    """Its lock timed out or its holder left."""
    GIVE_UP = auto()
    """It failed once too often, or its time to live ended."""
    POSTPONE = auto()
    """It shall wait for a while."""
    RIPEN = auto()
    """Its waiting time is over."""
    REVIVE = auto()
    """An owner gives it another life; in a dead-letter node it need not be DEAD for that."""


GONE: Final = "gone"
Next = State | Literal["gone"] | None

# fmt: off
_TABLE: Final[dict[State, tuple[Next, ...]]] = {
    #                LOCK           RETRACT  RELEASE        FAIL           GIVE_UP     POSTPONE        RIPEN         REVIVE
    State.QUEUED:  (State.LOCKED,  GONE,    None,          None,          State.DEAD, State.DELAYED,  None,         State.QUEUED),
    State.LOCKED:  (None,          GONE,    State.QUEUED,  State.QUEUED,  State.DEAD, None,           None,         None),
    State.DELAYED: (State.LOCKED,  GONE,    None,          None,          State.DEAD, None,           State.QUEUED, State.QUEUED),
    State.DEAD:    (None,          GONE,    None,          None,          None,       None,           None,         State.QUEUED),
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
    """Return the state of an item that may go out after `pause`, and when that is."""
    if pause <= 0:
        return State.QUEUED, None
    return State.DELAYED, later(now, pause)


def exhausted(item: Item, config: NodeConfig) -> bool:
    """Say whether one more failure is one too many."""
    return item.failed + 1 >= config.max_failures
