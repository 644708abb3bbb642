"""The measured services: pubqueue with gRPC and a store on disk, the bare handler, and pubqueue with XMPP on a direct stream."""

from __future__ import annotations

import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc

from bench.contestants import ROOT
from bench.stomp.brokers import running
from bench.stomp.thin import HOST
from pubqueue.faces.grpc.server import MAX_MESSAGE
from pubqueue.faces.grpc.wire import v1
from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONFIG: Final = """\
jid = "queue.localhost"
server = ""
store = "sqlite:///{folder}/queue.db"

[grpc]
listen = "{host}:{port}"
anonymous = "etl"

[[user]]
name = "etl"
local = true
"""

TOPIC: Final = "projects/bench/topics/jobs"
QUIET: Final = "projects/bench/topics/quiet"
"""A topic without publishes."""
PUBLISHER: Final = "google.pubsub.v1.Publisher"
SUBSCRIBER: Final = "google.pubsub.v1.Subscriber"
LIMITS: Final = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.use_local_subchannel_pool", 1),
]


class Client:
    """A channel. Requests are messages, or bytes that are ready; answers are bytes."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.aio.insecure_channel(f"{HOST}:{port}", LIMITS)

    async def ask(self, service: str, rpc: str, request: bytes) -> bytes:
        """Make a call, and return its answer."""
        answer: bytes = await self.channel.unary_unary(f"/{service}/{rpc}")(request)
        return answer

    def stream(self, requests: AsyncIterator[bytes]) -> Any:  # of grpc.aio
        """Open a stream."""
        return self.channel.stream_stream(f"/{SUBSCRIBER}/StreamingPull")(requests)

    async def close(self) -> None:
        """Close the channel."""
        await self.channel.close()


@dataclass(frozen=True, slots=True)
class Served:
    """A service that runs."""

    pid: int
    port: int

    def client(self) -> Client:
        """Connect to it."""
        return Client(self.port)

    async def topic(self, subscriptions: int, topic: str = TOPIC) -> list[str]:
        """Create a topic with this many subscriptions, and return their names."""
        client, last = self.client(), topic.rpartition("/")[2]
        names = [f"projects/bench/subscriptions/{last}-{n}" for n in range(subscriptions)]
        await client.ask(PUBLISHER, "CreateTopic", v1.Topic(name=topic).SerializeToString())
        for name in names:
            wanted = v1.Subscription(name=name, topic=topic, ack_deadline_seconds=600)
            await client.ask(SUBSCRIBER, "CreateSubscription", wanted.SerializeToString())
        await client.close()
        return names

    async def clear(self, names: list[str], topic: str = TOPIC) -> None:
        """Delete a topic and its subscriptions."""
        client = self.client()
        for name in names:
            gone = v1.DeleteSubscriptionRequest(subscription=name).SerializeToString()
            await client.ask(SUBSCRIBER, "DeleteSubscription", gone)
        done = v1.DeleteTopicRequest(topic=topic).SerializeToString()
        await client.ask(PUBLISHER, "DeleteTopic", done)
        await client.close()


@asynccontextmanager
async def pubqueue(*launcher: str) -> AsyncIterator[Served]:
    """Serve from a SQLite file. `launcher` is a module that runs the service's, and its arguments."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="pq-") as name:
        config = Path(name) / "pubqueue.toml"
        config.write_text(CONFIG.format(folder=name, host=HOST, port=port))
        words = [sys.executable, "-m", *launcher, "pubqueue", "serve", "--config", config]
        where = {"PYTHONPATH": str(ROOT)}
        async with running("pubqueue", words, Path(name), port, where) as pid:
            yield Served(pid, port)


@asynccontextmanager
async def bare() -> AsyncIterator[Served]:
    """Serve the bare handler."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        words = [sys.executable, "-m", "bench.grpc.bare", str(port)]
        async with running("bare", words, Path(folder), port, {"PYTHONPATH": str(ROOT)}) as pid:
            yield Served(pid, port)
