"""`pubqueue serve` with REST and nothing else, a process with its own store; and clients of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import httpx
from harness.http.clients import PLAIN
from harness.servers.users import RIGHT, OwnService, table

if TYPE_CHECKING:
    from pathlib import Path

DOMAIN: Final = "queue.localhost"
SERVED: Final = 'listen = "127.0.0.1:0"'
TOKEN: Final = "a-token-of-the-user-bee"
USERS: Final = "".join(
    (
        table("etl"),
        table("bee", token=TOKEN),
        table("ann"),
        table("elsewhere", faces=["stomp"]),
    )
)
NODES: Final = f"""
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@{DOMAIN}"]
members = ["bee@{DOMAIN}", "ann@{DOMAIN}"]
options = {{ "x-queueing#backoff_min" = 0 }}

[[node]]
name = "news"
publishers = ["etl@{DOMAIN}"]
"""
LISTENING: Final = re.compile(r"rest\.listening.*?host=(\S+) port=(\d+)")

Client = httpx.AsyncClient


def on_port(port: int) -> str:
    """Return the table for this port, which stays the same over restarts."""
    return f'listen = "127.0.0.1:{port}"'


class RestService(OwnService):
    """It has three users, and one of another face."""

    def __init__(
        self, folder: Path, rest: str = SERVED, nodes: str = NODES, *, top: str = "", **given: Any
    ) -> None:
        top = f'node_creation = "anyone"\n{top}'
        super().__init__(folder, f"[rest]\n{rest}\n{USERS}{nodes}", top=top, **given)

    @property
    def address(self) -> tuple[str, int]:
        """Where it has listened last."""
        return self.place(LISTENING)

    @property
    def root(self) -> str:
        """The URL of the service."""
        host, port = self.address
        return f"http://{host}:{port}/rest"

    def client(self, name: str = "etl", **more: Any) -> Client:
        """Return a client of this user, whose URLs may be relative to the service."""
        return client_at(more.pop("base_url", None) or self.root, name, **more)


def client_at(root: str, name: str = "etl", **more: Any) -> Client:
    """Return a client of this user."""
    more = {**PLAIN, **more}
    if name == "bee":
        more["headers"] = {"Authorization": f"Bearer {TOKEN}", **more.get("headers", {})}
    elif name:
        more["auth"] = (name, RIGHT)
    return httpx.AsyncClient(base_url=root, **more)
