"""Processor time of other programs, from Linux's /proc, by process family and by thread."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


def of_family(pid: int) -> float:
    """Return the seconds of a process, its children, and its ended children."""
    own = _fields(Path(f"/proc/{pid}/stat"))
    return sum(own) * TICK + sum(_living(Path(f"/proc/{child}/stat")) for child in children(pid))


def children(pid: int) -> tuple[int, ...]:
    """Return the processes that a process has started and that run."""
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def beside_the_main_thread(pid: int) -> float:
    """Return the seconds of all threads except the first; in a component, these use the store."""
    threads = (one for one in Path(f"/proc/{pid}/task").iterdir() if one.name != str(pid))
    return sum(_living(thread / "stat") for thread in threads)


def _living(stat: Path) -> float:
    """Return the seconds of the process itself; 0 if it has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return sum(_fields(stat)[:2]) * TICK
    return 0.0


def _fields(stat: Path) -> tuple[int, ...]:
    """Return utime, stime, cutime and cstime; the name before them may hold anything."""
    fields = stat.read_text().rpartition(")")[2].split()
    return tuple(int(field) for field in fields[11:15])
