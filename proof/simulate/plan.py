"""What shall go wrong in a run, and when: all of it follows from the seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN: Final = 10.0
"""Seconds after which the first fault may come: the queues are there by then."""

MINUTES: Final = 25.0
"""Virtual minutes of faults in a run; then they end, and the queues have to become empty."""

EVERY: Final = (8.0, 20.0, 60.0)
"""Seconds from one fault to the next, in the mean: one of these in each run."""

TAKEN: Final = 300.0
"""Seconds between two losses of a number, in the mean."""

SKEWED: Final = 400.0
"""Seconds between two starts of a machine whose clock is wrong, in the mean."""

SOUGHT: Final = 200.0
"""Seconds between two seeks of the queue that keeps what is done, in the mean."""

COPIED: Final = 600.0
"""Seconds between two copies of the store to another place, in the mean."""

LEFT_OUT: Final = 0.3
"""The part of the kinds that a run is without: some faults are only met when others do not come between."""

WITHIN: Final = 8
"""Steps within a batch at which an instance may die: at the first call of its transaction, at the second, and so on."""

COMMITTED: Final = WITHIN + 1
"""The step between a commit and its words; those after it are between the words."""


INSTANCES: Final = tuple(f"instance {number}" for number in (1, 2, 3))
WORKERS: Final = (
    "ann@x/1",
    "bob@x/1",
    "cat@x/phone",
    "dan@x/1",
    "eva@x/1",
    "dan@x/2",
    "fay@x/1",
    "gus@x/1",
)
CLIENTS: Final = (*WORKERS, "etl@x/a", "etl@x/b", "etl@x/spark", "boss@x/screen", "boss@x/desk")
"""Who takes part: workers, publishers, a reader of the event log, and the owner of the queues."""

QUEUES: Final = ("jobs", "orders", "digest")
KEEPING: Final = "digest"
"""The one of them that keeps what is done."""
LOST: Final = "lost"
"""Where dead orders go."""


class FaultKind(Enum):
    """What goes wrong; its value is how the report calls it."""

    CRASH = "instance crashed"
    RESTART = "instance restarted in order"
    CUT = "stream of an instance cut"
    CLOCK = "clock of an instance set"
    REFUSE = "store refused"
    FULL = "disk full"
    AWAY = "store did not answer"
    RACE = "store changed under batches"
    LATE = "store answered late"
    POWER = "all instances killed at once"
    SERVER = "XMPP server killed"
    SLOW = "network slow"
    HANG = "client hung"
    DEATH = "client died without a word"
    LEAVE = "worker left and came back"
    LINE = "stream of a client cut"
    DEAF = "answers to a client lost"
    PAUSE = "queue paused"
    PURGE = "queue purged"
    SEEK = "queue led back or on"
    LOST = "number of an instance taken"
    SKEW = "machine of an instance has a wrong clock"
    COPY = "store copied, at the second attempt"


SHARES: Final[dict[FaultKind, int]] = {
    FaultKind.CRASH: 10,
    FaultKind.CUT: 4,
    FaultKind.CLOCK: 3,
    FaultKind.HANG: 3,
    FaultKind.DEATH: 3,
    FaultKind.LINE: 3,
    FaultKind.DEAF: 3,
    FaultKind.REFUSE: 2,
    FaultKind.FULL: 2,
    FaultKind.AWAY: 1,
    FaultKind.RACE: 1,
    FaultKind.LATE: 2,
    FaultKind.RESTART: 1,
    FaultKind.POWER: 1,
    FaultKind.SERVER: 1,
    FaultKind.SLOW: 1,
    FaultKind.LEAVE: 1,
    FaultKind.PAUSE: 2,
    FaultKind.PURGE: 1,
}

SPANS: Final[dict[FaultKind, float]] = {
    FaultKind.CRASH: 10,
    FaultKind.RESTART: 10,
    FaultKind.CUT: 5,
    FaultKind.CLOCK: 90,
    FaultKind.REFUSE: 10,
    FaultKind.FULL: 20,
    FaultKind.AWAY: 15,
    FaultKind.RACE: 20,
    FaultKind.LATE: 30,
    FaultKind.POWER: 10,
    FaultKind.SERVER: 5,
    FaultKind.SLOW: 30,
    FaultKind.HANG: 60,
    FaultKind.DEATH: 60,
    FaultKind.LEAVE: 30,
    FaultKind.LINE: 5,
    FaultKind.DEAF: 0,
    FaultKind.PAUSE: 40,
    FaultKind.PURGE: 0,
    FaultKind.SEEK: 0,
    FaultKind.LOST: 0,
    FaultKind.SKEW: 5,
    FaultKind.COPY: 10,
}
"""Seconds that each lasts, in the mean."""


SELDOM: Final[dict[FaultKind, float]] = {
    FaultKind.LOST: TAKEN,
    FaultKind.SKEW: SKEWED,
    FaultKind.SEEK: SOUGHT,
    FaultKind.COPY: COPIED,
}
"""Seconds between two of these, in the mean."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens at a time, for a span, to one of those who take part, to a queue, or to all.

    `size` is the rest of what has to be known: the step of a crash, the seconds that a clock is set or wrong, how long the
    other side does not notice, how many answers are lost, which part of a store is copied before the copy ends.
    """

    at: float
    kind: FaultKind
    whom: str
    span: float
    size: float

    def reported(self) -> str:
        """Say it in plain words."""
        minutes, seconds = divmod(self.at, 60)
        return f"{minutes:3.0f}:{seconds:06.3f}  {_WORDS[self.kind](self)}"


def draw(seed: int, minutes: float = MINUTES) -> list[Fault]:
    """Return the faults of a run, in their order."""
    random = Random(f"{seed}/plan")
    every = random.choice(EVERY)
    usual = [kind for kind in FaultKind if kind in SHARES]
    kinds = [kind for kind in usual if random.random() >= LEFT_OUT] or usual
    faults = []
    at = BEGIN + random.expovariate(1 / every)
    while at < minutes * 60:
        (kind,) = random.choices(kinds, [SHARES[kind] for kind in kinds])
        span = random.expovariate(1 / SPANS[kind]) if SPANS[kind] else 0.0
        faults.append(Fault(at, kind, _whom(kind, random), span, _size(kind, random)))
        at += random.expovariate(1 / every)
    seldom = [fault for kind in SELDOM for fault in _seldom(kind, seed, minutes)]
    return sorted([*faults, *seldom], key=lambda fault: fault.at)


def _seldom(kind: FaultKind, seed: int, minutes: float) -> Iterator[Fault]:
    """Yield what befalls an instance, or the queue that keeps what is done, now and then in a long run: from draws of its own."""
    mean, random = SELDOM[kind], Random(f"{seed}/{kind.name.lower()}")
    at = BEGIN + random.expovariate(1 / mean)
    while at < minutes * 60:
        whom = KEEPING if kind is FaultKind.SEEK else random.choice(INSTANCES)
        span = random.expovariate(1 / SPANS[kind]) if SPANS[kind] else 0.0
        yield Fault(at, kind, whom, span, _size(kind, random))
        at += random.expovariate(1 / mean)


def _whom(kind: FaultKind, random: Random) -> str:
    match kind:
        case FaultKind.SLOW | FaultKind.SERVER | FaultKind.POWER:
            return ""
        case FaultKind.HANG | FaultKind.DEATH | FaultKind.LINE | FaultKind.DEAF:
            return random.choice(CLIENTS)
        case FaultKind.LEAVE:
            return random.choice(WORKERS)
        case FaultKind.PAUSE:
            return random.choice(QUEUES)
        case FaultKind.PURGE:
            return random.choice((*QUEUES, LOST))
        case _:
            return random.choice(INSTANCES)


def _size(kind: FaultKind, random: Random) -> float:
    match kind:
        case FaultKind.CRASH:
            return random.randrange(COMMITTED + 4)
        case FaultKind.CLOCK:
            return random.choice([-1, 1]) * random.choice([0.5, 5, 45, 600])
        case FaultKind.SKEW:
            return random.choice([-1, 1]) * random.choice([45, 600, 3600])
        case FaultKind.COPY:
            return random.random()
        case FaultKind.SLOW | FaultKind.LATE | FaultKind.SEEK:
            return random.choice([-5, 0, 5, 60, 600] if kind is FaultKind.SEEK else [0.3, 1, 3])
        case FaultKind.DEAF:
            return random.randrange(1, 4)
        case FaultKind.CUT | FaultKind.LINE | FaultKind.DEATH | FaultKind.SERVER:
            return random.choice([0, 0.5, 5, 60])
        case _:
            return 0


def step(size: float) -> str:
    """Say at which step of its next batch an instance dies."""
    number = round(size)
    if number == 0:
        return "before it begins"
    if number <= WITHIN:
        return f"at call {number} of its transaction, or at its commit"
    if number == COMMITTED:
        return "between its commit and its words"
    return f"after {number - COMMITTED} of its words"


_WORDS: Final = {
    FaultKind.CRASH: lambda f: (
        f"{f.whom} dies in its next batch, {step(f.size)}; it is started {f.span:.1f} s later"
    ),
    FaultKind.RESTART: lambda f: f"{f.whom} is stopped in order and started {f.span:.1f} s later",
    FaultKind.CUT: lambda f: (
        f"the stream of {f.whom} is cut; the server notices after {f.size:g} s, the instance after {f.span:.1f} s"
    ),
    FaultKind.CLOCK: lambda f: f"the clock of {f.whom} is set by {f.size:+g} s, for {f.span:.1f} s",
    FaultKind.REFUSE: lambda f: f"the store refuses {f.whom} for {f.span:.1f} s",
    FaultKind.FULL: lambda f: f"the disk is full for {f.whom}, for {f.span:.1f} s",
    FaultKind.AWAY: lambda f: f"the store does not answer {f.whom} for {f.span:.1f} s",
    FaultKind.RACE: lambda f: f"half of the batches of {f.whom} lose a race, for {f.span:.1f} s",
    FaultKind.LATE: lambda f: (
        f"the store answers {f.whom} up to {f.size:g} s late, for {f.span:.1f} s"
    ),
    FaultKind.POWER: lambda f: f"all instances die, and are started {f.span:.1f} s later",
    FaultKind.SERVER: lambda f: (
        f"the XMPP server dies; instances notice after {f.size:g} s, clients come back after {f.span:.1f} s"
    ),
    FaultKind.SLOW: lambda f: f"the network takes {f.size:g} s for each stanza, for {f.span:.1f} s",
    FaultKind.HANG: lambda f: f"{f.whom} hangs for {f.span:.1f} s",
    FaultKind.DEATH: lambda f: (
        f"{f.whom} dies; the server notices after {f.size:g} s, it comes back after {f.span:.1f} s"
    ),
    FaultKind.LEAVE: lambda f: f"{f.whom} leaves and comes back after {f.span:.1f} s",
    FaultKind.LINE: lambda f: (
        f"the stream of {f.whom} is cut; the server notices after {f.size:g} s, the client after {f.span:.1f} s"
    ),
    FaultKind.DEAF: lambda f: f"the next {f.size:g} answers to {f.whom} are lost",
    FaultKind.PAUSE: lambda f: f"the owner pauses {f.whom}, and resumes it after {f.span:.1f} s",
    FaultKind.PURGE: lambda f: f"the owner purges {f.whom}",
    FaultKind.SEEK: lambda f: f"the owner leads {f.whom} to {f.size:g} s before",
    FaultKind.LOST: lambda f: f"{f.whom} counts as one that died, and lives",
    FaultKind.SKEW: lambda f: (
        f"{f.whom} dies; its machine is started {f.span:.1f} s later, and its clock is wrong by {f.size:+g} s from then on"
    ),
    FaultKind.COPY: lambda f: (
        f"all instances are stopped; {f.size:.0%} of the store are copied to another place, for which {f.whom} has waited;"
        f" {f.span:.1f} s later the copy is begun again, and all are started there"
    ),
}
