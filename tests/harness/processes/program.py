"""The component as its operator runs it: `pubqueue serve`, a process with its own store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, Self

from harness.patience import TIMEOUT, until
from harness.starts import warm_start
from harness.starts.warm_start import PUBQUEUE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from harness.servers.stub_server import StubServer

COLD: Final = (sys.executable, PUBQUEUE)
"""A command for `Program`: start it as its operator does, for tests that look at its command line or its memory."""


def write_config(
    folder: Path, server: StubServer, extra: str = "", *, store: Path | str | None = None
) -> Path:
    """Write a configuration that attaches to `server` and stores in `folder`, or at an address; return its path."""
    if not isinstance(store, str):
        store = f"sqlite:///{(store or folder / 'pubqueue.db').absolute()}"
    keys = {
        "jid": server.domain,
        "secret": server.secret,
        "server": f"{server.host}:{server.port}",
        "store": store,
    }
    path = folder / "pubqueue.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    path.write_text("\n".join([*lines, extra, ""]))
    path.chmod(0o600)
    return path


class Program:
    """`pubqueue serve` on one configuration; an async context manager that leaves nothing behind.

    It is started warm, unless another command is given.
    """

    def __init__(self, config: Path, command: Sequence[str | Path] = (PUBQUEUE,)) -> None:
        self.command = command
        self._config = config
        self._log = config.with_name("stderr")
        self.process: asyncio.subprocess.Process | warm_start.Process | None = None

    @property
    def log(self) -> str:
        """All that the program has written to stderr, over every start."""
        return self._log.read_text() if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """Its process id, while it runs."""
        assert self.process, "the program does not run"
        return self.process.pid

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:  # what has been started is not left behind
            await self.kill()
            raise
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if error:
            if self.process and self.process.returncode is not None:
                error.add_note(f"the program has ended ({self.process.returncode}):\n{self.log}")
            await self.kill()
        else:
            await self.stop()

    async def start(self, first: str = "ready") -> None:
        """Start; return when it prints this, or fail with its output."""
        with self._log.open("ab") as log:
            self.process = await warm_start.program(
                *self.command,
                "serve",
                "--config",
                self._config,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        await self.says(first)

    async def says(self, word: str) -> None:
        """Return when its next line begins like this, or fail with its output."""
        assert self.process
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), TIMEOUT)
        assert line.startswith(word.encode()), f"said {line!r}, and on stderr:\n{self.log}"

    async def reload(self) -> None:
        """Send SIGHUP, and return when the configuration has been read again."""
        assert self.process, "the program does not run"
        before = self.log.count("event=config.read")
        self.process.send_signal(signal.SIGHUP)
        await until(lambda: self.log.count("event=config.read") > before)

    async def stop(self) -> None:
        """Send SIGTERM; the program must print nothing more on stdout and exit with 0."""
        process, self.process = self.process, None
        if process and process.stdout:
            process.send_signal(signal.SIGTERM)
            rest = await asyncio.wait_for(process.stdout.read(), TIMEOUT)
            assert (await process.wait(), rest) == (0, b""), self.log

    async def ended(self, within: float = TIMEOUT) -> int:
        """Wait until it has ended by itself; return its status, minus the signal if one ended it."""
        process, self.process = self.process, None
        assert process
        return await asyncio.wait_for(process.wait(), within)

    async def kill(self) -> None:
        """Send SIGKILL and wait until it is gone."""
        if self.process and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.process = None
