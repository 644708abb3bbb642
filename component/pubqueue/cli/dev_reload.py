"""`python -m pubqueue.cli.dev_reload FD ...`: the program `pubqueue` as a child that does not outlive its supervisor.

`FD` is the reading end of a pipe whose other end only the supervisor holds. When the supervisor ends, even by kill -9, the kernel closes
that end; the child then sends itself SIGTERM, so that it finishes its items, as when the supervisor stops it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from pubqueue.cli import main


def watch(pipe: int) -> None:
    """Wait, in a thread, for the supervisor's end of the pipe to be closed."""

    def wait() -> None:
        os.read(pipe, 1)  # nobody writes: what is read is the end
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="pubqueue supervisor", daemon=True).start()


if __name__ == "__main__":
    number, *words = sys.argv[1:]
    os.set_inheritable(int(number), False)  # noqa: FBT003  # what a handler runs needs no end of it
    watch(int(number))
    main(words, prog_name="pubqueue")
