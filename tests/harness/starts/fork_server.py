"""`python fork_server.py SOCKET`: the program `pubqueue`, imported once, of which each start is a fork.

It reads starts from the socket: words, environment, folder, and three files. The new process is a child of the one at
the other end of the socket, whose subprocess it would have been: there it is waited for, and its processor time is counted.
This program imports what the commands import, runs nothing, has one thread, and ends when the other end is closed.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import os
import pickle
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

LIBRARIES: Final = ["aiohttp", "uvloop", "slixmpp.plugins.xep_0092", "slixmpp.plugins.xep_0199"]
LIBRARIES += [
    f"slixmpp.features.feature_{name}"
    for name in ("bind", "mechanisms", "preapproval", "rosterver", "session", "starttls")
]
OURS: Final = [
    "pubqueue.faces.rest.door",
    "pubqueue.faces.rest.face",
    "pubqueue.faces.rest.profiles",
    "pubqueue.faces.stomp.face",
    "pubqueue.faces.stomp.web_socket",
    "pubqueue.faces.xmpp.face",
    "pubqueue.monitor.server",
    "pubqueue.stores.postgres.connection",
    "pubqueue.stores.postgres.store",
    "pubqueue.stores.sqlite.store",
]
"""What commands import when they need it. What gRPC needs is not among it: that has threads."""

INTERRUPTS: Final = (signal.SIGINT, signal.SIGQUIT)
"""Those of a terminal, for the tests, and not for the server. A new process gets what was sent to it meanwhile."""

MAX_REQUEST_BYTES: Final = 1 << 20
PR_SET_PDEATHSIG: Final = 1


def imported() -> None:
    """Import all commands, as the program does, and what they need later."""
    from pubqueue.cli import COLOURED, main  # noqa: PLC0415  # a program imports this one too

    for name in sorted(main.list_commands(None), key=COLOURED.__contains__):
        main.get_command(None, name)
    for module in LIBRARIES + OURS:
        import_module(module)


def started(server: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each start that is read; return in the new process."""
    while True:
        message, files, *_ = socket.recv_fds(server, MAX_REQUEST_BYTES, 3)
        if not message:
            os._exit(0)
        ours, its = os.pipe()
        adopted, gate = os.pipe()
        between = os.fork()
        if not between:
            child = os.fork()
            if child:  # the child of a process that has ended is adopted
                os.write(its, str(child).encode())
                os._exit(0)
            for file in (ours, its, gate):
                os.close(file)
            os.read(adopted, 1)  # until it is adopted
            os.close(adopted)
            return pickle.loads(message), files
        os.waitpid(between, 0)
        server.send(os.read(ours, 20))
        for file in (ours, its, adopted, gate, *files):
            os.close(file)


def become(start: dict[str, Any], files: list[int]) -> None:
    """Be as a new process is that was started like this."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != start["parent"]:
        os._exit(1)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(start["environment"])
    os.chdir(start["folder"])
    sys.argv = start["words"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    _open_streams(at_once=bool(os.environ.get("PYTHONUNBUFFERED")))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)


def _open_streams(*, at_once: bool) -> None:
    """Open stdin, stdout and stderr as Python does."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before, size = getattr(sys, name), 0 if at_once and number else -1
        stream = io.TextIOWrapper(
            open(number, "wb" if number else "rb", buffering=size, closefd=False),  # noqa: SIM115
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=not at_once and (number == 2 or os.isatty(number)),
            write_through=at_once,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class Ending:
    """The last of what a process does at its end: it ends, and does not take apart what it shares, which is most of a start."""

    code: int | None = None

    def __call__(self) -> None:
        """Write what is left and end, if the program has ended itself."""
        with suppress(OSError):  # which Python reports
            sys.stdout.flush()
            sys.stderr.flush()
            if self.code is not None:
                os._exit(self.code)


if __name__ == "__main__":
    ending = Ending()
    atexit.register(ending)  # the first that is registered is called last
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    imported()
    assert len(os.listdir("/proc/self/task")) == 1, "what it has imported has threads"
    gc.collect()
    gc.freeze()  # what all of them share is not looked at, and so not copied
    with socket.socket(fileno=int(sys.argv[1])) as server:
        start, files = started(server)
    become(start, files)
    from pubqueue.cli import main

    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            ending.code = (end.code or 0) & 255
        raise
