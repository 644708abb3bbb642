"""The faults of the demo: which worker is killed, which hangs, which releases items."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

# For how long the hanging worker hangs, in lock timeouts.
STALL: Final = 1.5
# The worker that unlocks releases one in this many items.
UNLOCK_SHARE: Final = 10
# The part of its fair share after which a worker hangs or is killed.
STALL_AFTER: Final = 1 / 6
DIE_AFTER: Final = 1 / 2


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one worker; 0 means never.

    At its item number `die_at` it waits to be killed; at `stall_at` it hangs for `stall_seconds`. It unlocks one in
    `unlock_share` items at their first delivery.
    """

    die_at: int = 0
    stall_at: int = 0
    stall_seconds: float = 0
    unlock_share: int = 0

    def unlocks(self, item: str, attempt: int) -> bool:
        """Return whether the worker releases the item; the items are the same in every run."""
        if not self.unlock_share or attempt > 1:
            return False
        return zlib.crc32(item.encode()) % self.unlock_share == 0


def assigned(*, items: int, workers: int, lock_timeout: float) -> list[Faults]:
    """Assign the three faults to three workers, or to fewer if there are fewer."""
    die_at, stall_at = (max(1, round(items / workers * part)) for part in (DIE_AFTER, STALL_AFTER))
    killed, unlocking, stalling = (number % workers for number in range(3))
    return [
        Faults(
            die_at=die_at if number == killed else 0,
            stall_at=stall_at if number == stalling else 0,
            stall_seconds=STALL * lock_timeout if number == stalling else 0,
            unlock_share=UNLOCK_SHARE if number == unlocking else 0,
        )
        for number in range(workers)
    ]
