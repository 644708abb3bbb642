"""What goes wrong in the demo: which worker is killed, which hangs, which gives items back."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

# For how long the hanging worker hangs, in lock timeouts.
STALL: Final = 1.5
# One in so many items is given back by the worker that unlocks.
UNLOCK_SHARE: Final = 10
# After which part of its fair share a worker hangs or is killed.
STALL_AFTER: Final = 1 / 6
DIE_AFTER: Final = 1 / 2


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one worker; a number that is 0 stands for never.

    At its item number `die_at` it waits to be killed, at `stall_at` it hangs for `stall_seconds`. It
    unlocks one in `unlock_share` items on their first delivery.
    """

    die_at: int = 0
    stall_at: int = 0
    stall_seconds: float = 0
    unlock_share: int = 0

    def unlocks(self, item: str, attempt: int) -> bool:
        """Say whether the worker gives the item back. The same items in every run."""
        if not self.unlock_share or attempt > 1:
            return False
        return zlib.crc32(item.encode()) % self.unlock_share == 0


def assigned(*, items: int, workers: int, lock_timeout: float) -> list[Faults]:
    """Give the three faults to three workers, or to as many as there are."""
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
