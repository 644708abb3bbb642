"""`pubqueue` with its modules imported already: some 0.3 to 0.5 seconds of processor time less for every start.

Each start is a process of its own, a child of this one, with its own words, environment, folder, files, signals and exit code:
`fork_server.py` forks it. What Python reads from the environment when it starts has been read already, so a start that sets it
otherwise is an ordinary one. `tests/cli/test_cold_starts.py` starts each command in the ordinary way. Tests that look at the
command line or the memory of a process start it in the ordinary way too.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import pickle
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.patience import TIMEOUT
from harness.starts import fork_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PUBQUEUE: Final = Path(sys.executable).with_name("pubqueue")

READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "COVERAGE_")
"""What variables are called that Python and its libraries read when they start."""

PR_SET_CHILD_SUBREAPER: Final = 36


class ForkServer:
    """The process that forks."""

    def __init__(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._of = os.getpid()
        self._read = _read_at_start(os.environ)
        self._lock = threading.Lock()
        self._prctl = ctypes.CDLL(None).prctl
        with its:
            self._process = subprocess.Popen(
                [sys.executable, fork_server.__file__, f"{its.fileno()}"],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        atexit.register(self.end)

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Return whether a process with this environment would be as one that is started in the ordinary way."""
        return _read_at_start(environment) == self._read

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        files: Sequence[int],
    ) -> int:
        """Fork a child of this process, and return its id."""
        start = {"words": words, "environment": dict(environment), "folder": folder}
        message = pickle.dumps(start | {"parent": os.getpid()})
        with self._lock:
            self._prctl(PR_SET_CHILD_SUBREAPER, 1)  # its parent ends at once, and this is the next
            try:
                socket.send_fds(self._socket, [message], files)
                answer = self._socket.recv(20)
            finally:
                self._prctl(PR_SET_CHILD_SUBREAPER, 0)
        assert answer, "the fork server has ended"
        return int(answer)

    def end(self) -> None:
        """Let it end, and wait for it."""
        self._socket.close()
        if os.getpid() == self._of:
            self._process.wait()


_servers: Final[list[ForkServer]] = []


def _server() -> ForkServer:
    if not _servers:
        _servers.append(ForkServer())
    return _servers[0]


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_AT_START) and name != "PYTHONUNBUFFERED"
    }


class Popen(subprocess.Popen[Any]):
    """A `subprocess.Popen` of `pubqueue`, warm if it can be."""

    def _execute_child(self, *given: Any) -> None:
        args, _, _, _, _, cwd, environment = given[:7]
        environment = os.environ if environment is None else environment
        if not _server().takes(environment):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = given[10:16]  # both ends of those for its stdin, stdout and stderr
        files = [
            own if file == -1 else file for own, file in enumerate(pipes[i] for i in (0, 3, 5))
        ]
        try:
            words = [os.fspath(word) for word in args]
            self.pid = _server().start(words, environment, os.path.abspath(cwd or "."), files)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class Process:
    """As `asyncio.subprocess.Process`."""

    def __init__(self, process: Popen) -> None:
        self._process = process
        self.pid = process.pid
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._ended = asyncio.Event()

    @property
    def returncode(self) -> int | None:
        """Its exit code, minus the signal if one has ended it; None while it runs."""
        return self._process.poll()

    async def connect(self) -> None:
        """Connect the pipes with the loop, and notice the end, whether or not a task waits for it."""
        loop = asyncio.get_running_loop()
        self._watched = os.pidfd_open(self.pid)
        loop.add_reader(self._watched, self._note_end)
        if self._process.stdin:
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.streams.FlowControlMixin(loop), self._process.stdin
            )
            self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        self.stdout = await self._reader(self._process.stdout)
        self.stderr = await self._reader(self._process.stderr)

    @staticmethod
    async def _reader(pipe: Any) -> asyncio.StreamReader | None:
        if pipe is None:
            return None
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        return reader

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watched)
        os.close(self._watched)
        self._process.wait()
        self._ended.set()

    async def wait(self) -> int:
        """Wait for its end; return its exit code."""
        await self._ended.wait()
        return self._process.wait()

    async def communicate(self, given: bytes | None = None) -> tuple[bytes | None, bytes | None]:
        """Write to its stdin and close it, read the rest of stdout and stderr, and wait for its end."""
        _, out, err = await asyncio.gather(
            self._feed(given), self._rest(self.stdout), self._rest(self.stderr)
        )
        await self.wait()
        return out, err

    async def _feed(self, given: bytes | None) -> None:
        if self.stdin:
            with suppress(BrokenPipeError, ConnectionResetError):  # it has read enough
                if given:
                    self.stdin.write(given)
                    await self.stdin.drain()
            self.stdin.close()

    @staticmethod
    async def _rest(reader: asyncio.StreamReader | None) -> bytes | None:
        return await reader.read() if reader else None

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()


async def pubqueue(*words: str | Path, **how: Any) -> Process:
    """As `asyncio.create_subprocess_exec(PUBQUEUE, *words, ...)`: `stdin`, `stdout`, `stderr`, `env` and `cwd`."""
    process = Process(Popen([PUBQUEUE, *words], bufsize=0, **how))
    await process.connect()
    return process


async def program(
    command: str | Path, *words: str | Path, **how: Any
) -> Process | asyncio.subprocess.Process:
    """As `asyncio.create_subprocess_exec`; warm, if the command is `pubqueue`."""
    if command == PUBQUEUE:
        return await pubqueue(*words, **how)
    return await asyncio.create_subprocess_exec(command, *words, **how)


def run(*words: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run((PUBQUEUE, *words), text=True, capture_output=True)`: run it to its end."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen([PUBQUEUE, *words], text=True, **pipes, **how) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
