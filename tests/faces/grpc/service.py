"""`pubqueue serve` with gRPC and nothing else, a process with its own store; and what clients of Google's need to find it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from faces.sides import PASSWORD
from harness.processes.program import PUBQUEUE, Program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DOMAIN: Final = "queue.localhost"
SERVED: Final = 'listen = "127.0.0.1:0"\nanonymous = "dev"'
CONFIG: Final = """
jid = "{domain}"
server = ""
store = "{store}"
{top}
[grpc]
{grpc}

[[user]]
name = "etl"
password = "{password}"
local = true
"""
LISTENING: Final = re.compile(r"grpc\.listening .*?host=(\S+) port=(\d+)")
LISTENING_FOR_JSON: Final = re.compile(r"grpc\.listening_for_json .*?host=(\S+) port=(\d+)")


class GrpcService(Program):
    """A context manager; it may be ended in any way, and started again at the same port."""

    def __init__(
        self,
        folder: Path,
        grpc: str = SERVED,
        more: str = "",
        *,
        store: str = "",
        top: str = "",
        command: Sequence[str | Path] = (PUBQUEUE,),
    ) -> None:
        self.path = folder / "pubqueue.toml"
        self._text = CONFIG.format(
            domain=DOMAIN,
            store=store or f"sqlite:///{folder / 'pubqueue.db'}",
            grpc=grpc,
            top=top,
            password=PASSWORD.text,
        )
        self._write(self._text + more)
        super().__init__(self.path, command)

    def _write(self, text: str) -> None:
        self.path.write_text(text)
        self.path.chmod(0o600)

    @property
    def address(self) -> str:
        """Where it has listened last."""
        host, port = LISTENING.findall(self.log)[-1]
        return f"{host}:{port}"

    @property
    def json(self) -> str:
        """Where it has listened for JSON last."""
        host, port = LISTENING_FOR_JSON.findall(self.log)[-1]
        return f"{host}:{port}"

    def stay(self) -> None:
        """Listen at the same port after the next start, so that clients find it again."""
        text = self.path.read_text()
        self._write(re.sub(r'listen = "[^"]*"', f'listen = "{self.address}"', text, count=1))
