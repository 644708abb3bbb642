"""`python -m pubqueue.cli.worker.dev_reload FD ...`: the program `pubqueue` as a child of a supervisor, which does not outlive it.

`FD` is the reading end of a pipe whose other end the supervisor alone holds. However it ends, kill -9 included, the kernel closes
that end: then the child is sent SIGTERM by itself, so that it finishes what it has in hand, as when the supervisor stops it.
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
