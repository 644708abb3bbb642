"""A service without an XMPP server, and operators who reach it over HTTP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from harness.operators.at_a_terminal import Operator
from harness.servers.users import RIGHT, OwnService, table
from harness.starts.warm_start import PUBQUEUE

from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from pathlib import Path

USERS: Final = (
    table("root", roles=["admin"]),
    table("anna", roles=["operator"]),
    table("vic", roles=["viewer"]),
    table("etl"),
)

NODES: Final = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@queue.localhost"]
options = { "x-queueing#event_log" = true }
"""


class HttpService(OwnService):
    """`pubqueue serve` without XMPP, with its API on a port of its own."""

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", top: str = "", **given: str
    ) -> None:
        (self.port,) = free_ports(1)
        http = f'http = "{host}:{self.port}"'
        tables = f'[stomp]\nlisten = "127.0.0.1:0"\n{"".join(USERS)}{NODES}'
        super().__init__(folder, tables, top=f"{http}\n{top}", **given)

    def url(self, user: str) -> str:
        """Return the URL for a user."""
        return f"http://{user}@127.0.0.1:{self.port}/"


class HttpOperator(Operator):
    """A user of the service at a terminal."""

    def __init__(self, url: str = "", password: str = RIGHT, **more: str) -> None:
        clean = {name: value for name, value in os.environ.items() if "PUBQUEUE" not in name}
        self.url, self.environment = url, clean | more
        if url:
            self.environment |= {"PUBQUEUE_URL": url, "PUBQUEUE_PASSWORD": password}
        self.program = PUBQUEUE
