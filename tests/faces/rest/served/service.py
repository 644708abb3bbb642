"""`pubqueue serve` with REST and nothing else, a process with its own store; and clients of it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

import httpx
from faces.sides import PASSWORD, RIGHT
from harness.patience import TIMEOUT
from harness.processes.program import PUBQUEUE, Program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DOMAIN: Final = "queue.localhost"
SERVED: Final = 'listen = "127.0.0.1:0"'
TOKEN: Final = "a-token-of-the-user-bee"
CONFIG: Final = """
jid = "{domain}"
server = ""
store = "{store}"
node_creation = "anyone"
{top}

[rest]
{rest}

[[user]]
name = "etl"
password = "{password}"

[[user]]
name = "bee"
token_sha256 = ["{token}"]

[[user]]
name = "ann"
password = "{password}"

[[user]]
name = "elsewhere"
password = "{password}"
faces = ["stomp"]
"""
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


class RestService(Program):
    """A context manager; it may be ended in any way, and started again."""

    def __init__(
        self,
        folder: Path,
        rest: str = SERVED,
        nodes: str = NODES,
        *,
        top: str = "",
        store: str = "",
        command: Sequence[str | Path] = (PUBQUEUE,),
    ) -> None:
        self.path = folder / "pubqueue.toml"
        text = CONFIG.format(
            domain=DOMAIN,
            store=store or f"sqlite:///{folder / 'pubqueue.db'}",
            rest=rest,
            top=top,
            password=PASSWORD.text,
            token=hashlib.sha256(TOKEN.encode()).hexdigest(),
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
    def root(self) -> str:
        """The URL of the service."""
        host, port = self.address
        return f"http://{host}:{port}/rest"

    def client(self, name: str = "etl", **more: Any) -> Client:
        """Return a client of this user, whose URLs may be relative to the service."""
        return client_at(more.pop("base_url", None) or self.root, name, **more)


def client_at(root: str, name: str = "etl", **more: Any) -> Client:
    """Return a client of this user."""
    more = {"timeout": TIMEOUT, "trust_env": False, **more}
    if name == "bee":
        more["headers"] = {"Authorization": f"Bearer {TOKEN}", **more.get("headers", {})}
    elif name:
        more["auth"] = (name, RIGHT)
    return httpx.AsyncClient(base_url=root, **more)
