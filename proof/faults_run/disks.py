"""Writes of other processes are refused for a while, as on a disk that is full or broken: by a limit on the size of files.

The limit is the system's own, so what fails is a real write, in the middle of whatever is being written. Where Python and
PostgreSQL run nobody is killed for it: the write fails, with "File too large".
"""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

LOOK: Final = 0.05
"""Seconds between two looks whether somebody has met it."""

LOOKS: Final = 60
"""So many looks at most; halfway the limit is lowered, so that nothing fits any more."""


@contextmanager
def limited(pids: Iterable[int], byte_count: int, user: Sequence[str]) -> Iterator[None]:
    """Let these processes write nothing behind so many bytes of a file. `user` is put before a command to run it as theirs."""
    theirs = list(pids)
    for pid in theirs:
        _limit(pid, str(byte_count), user)
    try:
        yield
    finally:
        for pid in theirs:
            _limit(pid, "unlimited", user)


def _limit(pid: int, byte_count: str, user: Sequence[str]) -> None:
    """Set the soft limit; a process that has ended needs none."""
    subprocess.run(
        [*user, "prlimit", "--pid", str(pid), f"--fsize={byte_count}:"],
        check=False,  # it may have ended meanwhile
        capture_output=True,
    )


async def refuse(
    pids: Callable[[], Iterable[int]],
    sizes: Callable[[], tuple[int, int]],
    is_met: Callable[[], bool],
    random: Random | None,
    user: Sequence[str] = (),
) -> None:
    """Refuse writes until somebody has met it, or it has lasted for long.

    `sizes` are the least and the most that may be refused behind. It is the most for a full disk, where what is there can be
    overwritten; with `random` it is anywhere, for a write that fails in the middle.
    """
    least, most = sizes()
    byte_count = most if random is None else random.randint(least, max(least, most))
    for limit in (byte_count, least):
        with limited(pids(), limit, user):
            for _ in range(LOOKS // 2):
                if is_met():
                    return
                await asyncio.sleep(LOOK)
