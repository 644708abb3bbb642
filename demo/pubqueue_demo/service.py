"""Runs the component like its operator: instances that are restarted when they die."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final, Self

from pubqueue_demo.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from pubqueue_demo.prosody import Prosody
    from pubqueue_demo.queue_state import Database

NODE: Final = "late-flights"
PUBLISHER: Final = "spark"

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
# A stalled worker must not hold its items for long: the demo is short.
"x-queueing#lock_timeout" = {lock_timeout}
# A job that is run again after a crash must not publish finished work again.
"x-queueing#dedup_window" = 3600
"""


class Service:
    """`pubqueue serve` on a database, attached to the server, in one or several instances.

    The server accepts one instance; the others wait, and one of them takes over when it is gone. An async context
    manager; entering waits until the first is ready and the others wait. `supervise` keeps them running.
    """

    def __init__(
        self,
        server: Prosody,
        folder: Path,
        database: Database,
        *,
        instances: int,
        members: Sequence[str],
        lock_timeout: int,
        note: Callable[[str], None],
    ) -> None:
        self.jid = server.component
        self.database = database
        self._server = server
        self._folder = folder
        self._members = members
        self._lock_timeout = lock_timeout
        names = ["the component"]
        if instances > 1:
            names = [f"instance {number} of the component" for number in range(1, instances + 1)]
        self._instances = [Instance(name, self._toml, self._log, note) for name in names]

    async def __aenter__(self) -> Self:
        secret = self._folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(self._server.secret)
        self._toml.write_text(self._config(secret))
        for instance in self._instances:
            await instance.start()
            instance.emit()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(instance.stop() for instance in self._instances))

    @property
    def restarts(self) -> int:
        """How often an instance was restarted."""
        return sum(instance.restarts for instance in self._instances)

    @property
    def up(self) -> bool:
        """Whether an instance is ready and has not died since."""
        return any(instance.ready for instance in self._instances)

    async def supervise(self) -> None:
        """Restart an instance whenever it dies; return when all are stopped.

        Raises ChildError if it cannot be started, or ends by itself with an error.
        """
        async with asyncio.TaskGroup() as tasks:
            for instance in self._instances:
                tasks.create_task(instance.supervise())

    def kill(self) -> None:
        """Kill the active instance (SIGKILL), like a crash; `supervise` restarts it."""
        for instance in self._instances:
            if instance.ready:
                instance.kill()

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
            "store": self.database.address,
            "node": NODE,
            "publisher": f"{PUBLISHER}@{self._server.domain}",
            "members": [f"{name}@{self._server.domain}" for name in self._members],
        }
        # a JSON string is a TOML string, and a list of them a list
        quoted = {name: json.dumps(value) for name, value in values.items()}
        return CONFIG.format(**quoted, lock_timeout=self._lock_timeout)
