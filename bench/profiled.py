"""Run a module under cProfile, every thread of it: `python -m bench.profiled FOLDER MODULE ARGS`.

`python -m cProfile` only profiles the main thread, and the store has its own thread. Each thread
writes its figures to a file in FOLDER when it ends.
"""

from __future__ import annotations

import cProfile
import itertools
import runpy
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    """Remove this program's name from the arguments and run the other module."""
    folder, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv[:] = sys.argv[2:]
    numbers = itertools.count(1)
    original = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        own = cProfile.Profile(time.thread_time)
        try:
            own.runcall(original, thread)
        finally:
            own.dump_stats(folder / f"thread-{next(numbers)}.prof")

    threading.Thread.run = run  # type: ignore[assignment, method-assign]
    profile = cProfile.Profile(time.thread_time)
    try:
        profile.runcall(runpy.run_module, module, run_name="__main__", alter_sys=True)
    finally:
        profile.dump_stats(folder / "main.prof")


main()
