"""`pubqueue serve` with STOMP and nothing else, a process with its own store; and clients that connect to it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from faces.sides import PASSWORD, RIGHT
from faces.stomp.clients import Connection
from harness.patience import TIMEOUT
from harness.processes.program import PUBQUEUE, Program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DOMAIN: Final = "queue.localhost"
SERVED: Final = 'listen = "127.0.0.1:0"\nheart_beat = 600'
"""No test waits for a beat that is not about beats."""
CONFIG: Final = """
jid = "{domain}"
server = ""
store = "{store}"
{more}

[stomp]
{stomp}

[[user]]
name = "etl"
password = "{password}"

[[user]]
name = "bee"
password = "{password}"
"""
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


class StompService(Program):
    """A context manager; it may be ended in any way, and started again."""

    def __init__(
        self,
        folder: Path,
        stomp: str = SERVED,
        nodes: str = NODES,
        *,
        store: str = "",
        more: str = "",
        command: Sequence[str | Path] = (PUBQUEUE,),
    ) -> None:
        self.path = folder / "pubqueue.toml"
        text = CONFIG.format(
            domain=DOMAIN,
            store=store or f"sqlite:///{folder / 'pubqueue.db'}",
            stomp=stomp,
            more=more,
            password=PASSWORD.text,
        )
        self.path.write_text(text + nodes)
        self.path.chmod(0o600)
        super().__init__(self.path, command)

    @property
    def address(self) -> tuple[str, int]:
        """Where it has listened last."""
        host, port = LISTENING.findall(self.log)[-1]
        return host, int(port)

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
