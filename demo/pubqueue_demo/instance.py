"""One instance of the component: a process that is restarted when it dies."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

from pubqueue_demo.process import Child, ChildError, spawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START_TIMEOUT: Final = 30.0
START_ATTEMPTS: Final = 20


class Instance:
    """`pubqueue serve` with the configuration at `toml`. It is `ready` while it is the active instance."""

    def __init__(self, name: str, toml: Path, log: Path, note: Callable[[str], None]) -> None:
        self.restarts = 0
        self._name, self._toml, self._log, self._note = name, toml, log, note
        self._child: Child | None = None
        self._at_work = False
        self._ending = False

    @property
    def ready(self) -> bool:
        """Whether it is active and has not died since."""
        return self._at_work and self._child is not None and self._child.running

    async def start(self) -> None:
        """Start it; return when it is ready, or waits while another instance is active.

        Raises ChildError if it cannot be started.
        """
        for _ in range(START_ATTEMPTS):
            child = self._child = await spawn(
                [sys.executable, "-Im", "pubqueue", "serve", "--config", self._toml],
                name=self._name,
                log=self._log,
            )
            try:
                self._at_work = _is_ready(await child.wait_line("", timeout=START_TIMEOUT))
            except ChildError:
                died_of = child.process.returncode
                await child.kill()
                if died_of != -signal.SIGKILL:
                    raise
            else:
                return
        raise ChildError(self._name, "was killed at every start", self._log)

    def emit(self, when_ready: str = "is ready") -> None:
        """Return its state in words."""
        assert self._child is not None
        doing = when_ready if self._at_work else "waits, to take over when the one at work is gone"
        self._note(f"{self._name} {doing} (process {self._child.pid})")

    async def supervise(self) -> None:
        """Restart it whenever it dies; return when it is stopped.

        Raises ChildError if it cannot be started, or ends by itself with an error.
        """
        while True:
            assert self._child is not None
            async for line in self._child.lines():
                self._at_work = _is_ready(line)
                self.emit("has taken over")
            code = await self._child.wait()
            if self._ending:
                return
            if code >= 0:
                raise ChildError(self._name, f"ended with status {code}", self._log)
            self.restarts += 1
            self._at_work = False
            name = signal.Signals(-code).name
            self._note(f"{self._name} was killed ({name}); starting it again")
            await self.start()
            self.emit("is back")

    def kill(self) -> None:
        """Kill it as a crash would (SIGKILL)."""
        self._at_work = False
        if self._child is not None and self._child.running:
            self._child.process.kill()

    async def stop(self) -> None:
        """Stop it cleanly."""
        self._ending = True
        if self._child is not None:
            await self._child.stop()


def _is_ready(line: str) -> bool:
    return line.startswith("ready")
