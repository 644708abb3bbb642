"""`pubqueue serve` with STOMP and nothing else, a process with its own store; and clients that connect to it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

from faces.stomp.clients import Connection
from harness.patience import TIMEOUT
from harness.servers.users import RIGHT, OwnService, table

if TYPE_CHECKING:
    from pathlib import Path

DOMAIN: Final = "queue.localhost"
SERVED: Final = 'listen = "127.0.0.1:0"\nheart_beat = 600'
"""No test waits for a beat that is not about beats."""
NODES: Final = "".join(
    f"""
[[node]]
name = "{name}"
queueing = true
publishers = ["etl@{DOMAIN}", "bee@{DOMAIN}"]
options = {{ "x-queueing#backoff_min" = 0 }}
"""
    for name in ("jobs", "results")
)
HTTP: Final = re.compile(r"http\.listening.*?host=(\S+) port=(\d+)")
LISTENING: Final = re.compile(r"stomp\.listening.*?host=(\S+) port=(\d+)")


class StompService(OwnService):
    """It has two users, and may be ended in any way, and started again."""

    def __init__(
        self, folder: Path, stomp: str = SERVED, nodes: str = NODES, *, more: str = "", **given: Any
    ) -> None:
        users = table("etl") + table("bee")
        super().__init__(folder, f"[stomp]\n{stomp}\n{users}{nodes}", top=more, **given)

    @property
    def address(self) -> tuple[str, int]:
        """Where it has listened last."""
        return self.place(LISTENING)

    @property
    def http(self) -> str:
        """Where it has served HTTP last."""
        return ":".join(HTTP.findall(self.log)[-1])

    async def connected(self, version: str = "1.2") -> Connection:
        """Return a connection that has said nothing."""
        return Connection(*await asyncio.open_connection(*self.address), version)

    async def log_in(self, name: str = "etl", version: str = "1.2", **headers: str) -> Connection:
        """Return a connection that has logged in.

        Raises:
            ConnectionError: the service has ended before it answered.

        """
        connection = await self.connected(version)
        answer = await asyncio.wait_for(connection.connect(name, RIGHT, **headers), TIMEOUT)
        if answer is None:
            raise ConnectionResetError
        assert answer.command == "CONNECTED", answer
        return connection
