"""The measured services: pubqueue with its REST face and a store on disk, and the bare handler."""

from __future__ import annotations

import secrets
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.contestants import ROOT
from bench.rest.raw import RawClient
from bench.stomp.brokers import running
from bench.stomp.thin import HOST
from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONFIG: Final = """\
jid = "queue.localhost"
server = ""
store = "sqlite:///{folder}/queue.db"

[rest]
listen = "{host}:{port}"
max_connections = 20000
max_waiting = 20000
max_waiting_of_account = 20000

[[user]]
name = "etl"
token_sha256 = ["{digest}"]

[[node]]
name = "jobs"
queueing = true
owners = ["boss@queue.localhost"]
publishers = ["etl@queue.localhost"]
members = ["etl@queue.localhost"]
options = {{ "x-queueing#max_queue_requests" = 10000 }}
"""

QUEUE: Final = b"/rest/queues/jobs"


@dataclass(frozen=True, slots=True)
class Served:
    """A service that runs: its process, its port, and the fields of every request to it."""

    name: str
    pid: int
    port: int
    head: bytes = b""

    async def client(self, host: str = HOST) -> RawClient:
        """Connect to it."""
        return await RawClient.to(self.port, self.head, host)


@asynccontextmanager
async def pubqueue(*launcher: str) -> AsyncIterator[Served]:
    """Serve a queue from a SQLite file. `launcher` is a module that runs the service's, and its arguments."""
    (port,) = free_ports(1)
    token = secrets.token_urlsafe(24)
    digest = sha256(token.encode()).hexdigest()
    with tempfile.TemporaryDirectory(prefix="pq-") as name:
        folder = Path(name)
        config = folder / "pubqueue.toml"
        config.write_text(CONFIG.format(folder=folder, host=HOST, port=port, digest=digest))
        config.chmod(0o600)
        words = [sys.executable, "-m", *launcher, "pubqueue", "serve", "--config", config]
        head = b"Authorization: Bearer %s\r\n" % token.encode()
        async with running("pubqueue", words, folder, port, {"PYTHONPATH": str(ROOT)}) as pid:
            yield Served("pubqueue", pid, port, head)


@asynccontextmanager
async def bare() -> AsyncIterator[Served]:
    """Serve the bare handler."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        words = [sys.executable, "-m", "bench.rest.bare", str(port)]
        async with running("bare", words, Path(folder), port, {"PYTHONPATH": str(ROOT)}) as pid:
            yield Served("bare", pid, port)
