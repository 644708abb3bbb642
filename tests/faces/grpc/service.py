"""`pubqueue serve` with gRPC and nothing else, a process with its own store; and what clients of Google's need to find it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from harness.servers.users import OwnService, table

if TYPE_CHECKING:
    from pathlib import Path

DOMAIN: Final = "queue.localhost"
SERVED: Final = 'listen = "127.0.0.1:0"\nanonymous = "dev"'
LISTENING: Final = re.compile(r"grpc\.listening .*?host=(\S+) port=(\d+)")
LISTENING_FOR_JSON: Final = re.compile(r"grpc\.listening_for_json .*?host=(\S+) port=(\d+)")


class GrpcService(OwnService):
    """It has the user `etl`, and may be started again at the same port."""

    def __init__(self, folder: Path, grpc: str = SERVED, more: str = "", **given: Any) -> None:
        super().__init__(folder, f"[grpc]\n{grpc}\n{table('etl', local=True)}{more}", **given)

    @property
    def address(self) -> str:
        """Where it has listened last."""
        host, port = self.place(LISTENING)
        return f"{host}:{port}"

    @property
    def json(self) -> str:
        """Where it has listened for JSON last."""
        host, port = self.place(LISTENING_FOR_JSON)
        return f"{host}:{port}"

    def stay(self) -> None:
        """Listen at the same port after the next start, so that clients find it again."""
        text = self.path.read_text()
        self.write(re.sub(r'listen = "[^"]*"', f'listen = "{self.address}"', text, count=1))
