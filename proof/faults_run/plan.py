"""What shall happen in a run, and when: all of it follows from the seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import cycle, islice
from random import Random
from typing import Final


class Fault(Enum):
    """What goes wrong; its value is how the report calls it."""

    COMPONENT = "component killed"
    WORKER = "worker killed"
    SERVER = "server killed"
    STALL = "worker stalled beyond its locks"
    SERVER_RESTART = "server restarted"
    COMPONENT_RESTART = "component restarted"
    DATABASE = "database killed"
    DATABASE_SESSION = "session of the database killed"
    DATABASE_RESTART = "database restarted"
    FULL_DISK = "disk of the store full"
    FAILED_WRITE = "writes of the store refused"


ROUND: Final = (
    *(Fault.COMPONENT, Fault.WORKER, Fault.SERVER, Fault.STALL, Fault.COMPONENT, Fault.WORKER),
    *(Fault.SERVER_RESTART, Fault.COMPONENT_RESTART, Fault.COMPONENT, Fault.WORKER),
)
"""Every kind in its share; a run takes as many as it needs, in any order."""

OF_DATABASES: Final = (
    *(Fault.DATABASE, Fault.DATABASE_SESSION, Fault.DATABASE_RESTART, Fault.DATABASE),
)
"""What befalls a store that has processes of its own, besides."""

OF_DISKS: Final = (Fault.FULL_DISK, Fault.FAILED_WRITE)
"""What befalls a store in the middle of whatever it writes."""

ITEMS_PER_FAULT: Final = 125
FEWEST: Final = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """A run: how many items, who works on them, and the seed and the kinds of its misfortunes.

    `instances` of the component share one store; only ejabberd lets more than one in. With a `log` the
    store tells what became of each item. Items are of so many `groups`, or of none. They are delivered
    at the `level`, if there is one (urn:xmpp:qos). Each of the other `faces` has a publisher and a worker besides.
    """

    items: int
    seed: int
    publishers: int = 2
    workers: int = 3
    requests: int = 16
    lock_timeout: int = 3
    instances: int = 1
    kinds: tuple[Fault, ...] = ROUND
    log: bool = False
    store: str = "sqlite"
    groups: int = 0
    level: str = ""
    faces: tuple[str, ...] = ()

    @property
    def backlog(self) -> int:
        """How many items may wait: few, so that publishers suffer from the faults as well."""
        return max(20, self.items // 20)

    def faults(self) -> list[tuple[int, Fault]]:
        """Return each fault with the number of finished items at which it happens, in order."""
        random = Random(self.seed)
        count = max(FEWEST, self.items // ITEMS_PER_FAULT)
        kinds = list(islice(cycle(self.kinds), count))
        random.shuffle(kinds)
        moments = sorted(random.randrange(1, max(2, self.items * 9 // 10)) for _ in kinds)
        return list(zip(moments, kinds, strict=True))

    def group(self, item: str) -> str | None:
        """Return the group that an item is of."""
        return f"g{int(item.rpartition('-')[2]) % self.groups}" if self.groups else None

    def ids(self, publisher: int) -> list[str]:
        """Return the items of one publisher."""
        step = self.publishers + len(self.faces)
        return [f"p{publisher}-{n}" for n in range(publisher, self.items, step)]
