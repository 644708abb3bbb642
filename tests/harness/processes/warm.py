"""`pubqueue serve` with its modules imported already: half a second less for every start.

It is nevertheless a process of its own, forked from one that has imported the modules and run nothing else. A
module that draws a random value when it is imported draws another after the fork (`test_warm`). It runs the
program's own command line, with the same output, signals and exit codes. Its calendar stands still except for the time that the test lets pass
(`clock`), and so do its timers between the start and the stop (`leaping`).
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import socket
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Final, Self

from harness.batches import clock
from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext, ForkServerProcess
    from pathlib import Path
    from types import TracebackType

    from pubqueue.model.entities import Millis
    from pubqueue.stores.postgres.connection import ServerClock

MODULES: Final = ["aiosqlite", "uvloop", "slixmpp.plugins.xep_0092", "slixmpp.plugins.xep_0199"]
MODULES += [
    "pubqueue.cli.service",
    "pubqueue.stores.sqlite.store",
    "pubqueue.stores.postgres.store",
]
MODULES += ["pubqueue.faces.xmpp.face", "pubqueue.stores.postgres.connection"]
"""What `serve` imports, also when it first needs it."""


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    return context


def _serve(config: Path, out: Connection, log: Path, calendar: Path, words: socket.socket) -> None:
    """Become `pubqueue serve --config ...`, in the new process."""
    gc.freeze()  # what is shared with other processes is not looked at, and so not copied
    follows = clock.follow(calendar)
    import aiosqlite  # noqa: PLC0415 - imported where it is run
    import uvloop  # noqa: PLC0415 - likewise
    from harness.batches.leaping import LeapingLoop, at_work, noted  # noqa: PLC0415 - likewise

    from pubqueue.cli import main  # noqa: PLC0415 - likewise
    from pubqueue.faces.xmpp.stream.component import Outgoing  # noqa: PLC0415 - likewise
    from pubqueue.stores.postgres.connection import ServerClock  # noqa: PLC0415 - likewise

    # the calendar of a scenario is that of the database too, whose own clock does not stand still
    ServerClock.note_time = _ignore
    uvloop.new_event_loop = lambda: LeapingLoop(words, follows)
    for kind, name, seen in (
        (aiosqlite.Connection, "_execute", at_work),
        (Outgoing, "write", noted),
    ):
        setattr(kind, name, seen(getattr(kind, name)))

    os.dup2(out.fileno(), 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 2)
    out.close()
    main(["serve", "--config", str(config)], prog_name="pubqueue")


def _ignore(_clock: ServerClock, _now: Millis) -> None:
    """Use the calendar alone."""


class WarmProgram:
    """As `Program`, but started warm."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._log = config.with_name("stderr")
        self._calendar = config.with_name("calendar")
        self.clock = clock.Clock(self._calendar)
        self._process: ForkServerProcess | None = None

    @property
    def log(self) -> str:
        """All that the program has written to stderr, over every start."""
        return self._log.read_text() if self._log.exists() else ""

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:  # a process that is left behind would be waited for at the end
            await self.kill()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await (self.kill() if kind else self.stop())

    async def start(self) -> None:
        """Start; return when it prints `ready`, or fail with its output."""
        mine, its = _context().Pipe(duplex=False)
        here, there = socket.socketpair()
        files = (self._config, its, self._log, self._calendar, there)
        process = _context().Process(target=_serve, args=files)
        process.start()
        its.close()
        there.close()
        self._process = process
        self._out = asyncio.StreamReader()
        self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._out), os.fdopen(os.dup(mine.fileno()), "rb")
        )
        mine.close()
        self._answers, self._words = await asyncio.open_connection(sock=here)
        line = await asyncio.wait_for(self._out.readline(), TIMEOUT)
        assert line.startswith(b"ready"), f"said {line!r}, and on stderr:\n{self.log}"
        await self._say("stand")

    async def leap(self, within: float) -> None:
        """Let its time leap from timer to timer until it writes something, for this many seconds at most."""
        await self._say(f"leap {within}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let its timers run by the machine's clock within the body; its calendar stands."""
        await self._say("run")
        yield
        await self._say("stand")

    async def _say(self, word: str) -> None:
        self._words.write(f"{word}\n".encode())
        answer = await asyncio.wait_for(self._answers.readline(), TIMEOUT)
        assert answer, f"it is gone, and on stderr:\n{self.log}"

    async def stop(self) -> None:
        """Send SIGTERM; the program must print nothing more on stdout and exit with 0."""
        process, self._process = self._process, None
        if process:
            await self._say("run")
            process.terminate()
            rest = await asyncio.wait_for(self._out.read(), TIMEOUT)
            assert (await _end(process), rest) == (0, b""), self.log
            self._words.close()

    async def kill(self) -> None:
        """Send SIGKILL and wait until it is gone."""
        process, self._process = self._process, None
        if process:
            process.kill()
            await _end(process)
            self._pipe.close()
            self._words.close()


async def _end(process: ForkServerProcess) -> int | None:
    """Wait for the end of the process; return its exit code."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), TIMEOUT)
    finally:
        loop.remove_reader(process.sentinel)
    process.join()
    code = process.exitcode
    process.close()
    return code
