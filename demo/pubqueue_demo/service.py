"""The component as a process that is started again when it dies."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Final, Self

from pubqueue_demo.process import Child, ChildError, spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from pubqueue_demo.prosody import Prosody

NODE: Final = "late-flights"
PUBLISHER: Final = "spark"
START_TIMEOUT: Final = 30.0
START_ATTEMPTS: Final = 20

CONFIG: Final = """\
jid = {jid}
secret_file = {secret_file}
server = {server}
store = {store}
node_creation = "admins"

[[node]]
name = {node}
queueing = true
publishers = [{publisher}]
members = {members}

[node.options]
# A worker that stalls shall not hold its items for long: the demo is short.
"x-queueing#lock_timeout" = {lock_timeout}
# A job that is run again after a crash shall not publish finished work anew.
"x-queueing#dedup_window" = 3600
"""


class Service:
    """`pubqueue serve` on a database in `folder`, attached to the server.

    An async context manager, entered when the component is ready; `supervise` keeps it alive.
    """

    def __init__(
        self,
        server: Prosody,
        folder: Path,
        *,
        members: Sequence[str],
        lock_timeout: int,
        note: Callable[[str], None],
    ) -> None:
        self.jid = server.component
        self.database = folder / "pubqueue.db"
        self.restarts = 0
        self._server = server
        self._folder = folder
        self._members = members
        self._lock_timeout = lock_timeout
        self._note = note
        self._child: Child | None = None
        self._ready = False
        self._ending = False

    async def __aenter__(self) -> Self:
        secret = self._folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(self._server.secret)
        (self._folder / "pubqueue.toml").write_text(self._config(secret))
        await self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending = True
        if self._child is not None:
            await self._child.stop()

    @property
    def pid(self) -> int:
        """The process id of the component that runs now."""
        assert self._child is not None
        return self._child.pid

    @property
    def up(self) -> bool:
        """Whether it is ready and has not died since."""
        return self._ready and self._child is not None and self._child.running

    async def supervise(self) -> None:
        """Start the component again whenever it dies; return when it is ended in order.

        Raises ChildError when it cannot be started, or ends by itself with an error.
        """
        while True:
            assert self._child is not None
            code = await self._child.wait()
            if self._ending:
                return
            if code >= 0:
                raise ChildError("the component", f"ended with status {code}", self._log)
            self.restarts += 1
            self._ready = False
            name = signal.Signals(-code).name
            self._note(f"the component was killed ({name}); starting it again")
            await self._start()
            self._note(f"the component is back (process {self.pid})")

    def kill(self) -> None:
        """Kill the component as a crash would (SIGKILL); `supervise` starts it again."""
        self._ready = False
        if self._child is not None and self._child.running:
            self._child.process.kill()

    async def _start(self) -> None:
        for _ in range(START_ATTEMPTS):
            self._child = await spawn(
                [sys.executable, "-Im", "pubqueue", "serve", "--config", self._toml],
                name="the component",
                log=self._log,
            )
            try:
                await self._child.wait_line("ready", timeout=START_TIMEOUT)
            except ChildError:
                died_of = self._child.process.returncode
                await self._child.kill()
                if died_of != -signal.SIGKILL:
                    raise
            else:
                self._ready = True
                return
        raise ChildError("the component", "was killed at every start", self._log)

    @property
    def _log(self) -> Path:
        return self._folder / "component.log"

    @property
    def _toml(self) -> Path:
        return self._folder / "pubqueue.toml"

    def _config(self, secret: Path) -> str:
        server = f"{self._server.host}:{self._server.component_port}"
        values = {
            "jid": self.jid,
            "secret_file": str(secret),
            "server": server,
            "store": f"sqlite:///{self.database}",
            "node": NODE,
            "publisher": f"{PUBLISHER}@{self._server.domain}",
            "members": [f"{name}@{self._server.domain}" for name in self._members],
        }
        # a JSON string is a TOML string, and a list of them a list
        quoted = {name: json.dumps(value) for name, value in values.items()}
        return CONFIG.format(**quoted, lock_timeout=self._lock_timeout)
