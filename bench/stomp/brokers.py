"""The brokers: each with its own configuration, in a temporary folder, on free loopback ports."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.contestants import ROOT
from bench.measure import processor_time
from bench.processors import children
from bench.stomp.others import ProcrastinateClient, RedisClient
from bench.stomp.thin import HOST, BeanstalkClient, StompClient
from bench.wire import BenchError
from pubqueue.accounts import credentials
from pubqueue.loopback import free_ports
from pubqueue_demo.postgres import Postgres
from pubqueue_demo.process import ChildError, spawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from bench.stomp.thin import Client

READY: Final = 60.0
"""Seconds for a broker to start."""
LOOK: Final = 0.05
"""Seconds between two attempts to connect to it."""

USER: Final = "etl"
PASSCODE: Final = "thin-as-can-be"
CONFIG: Final = """\
jid = "queue.localhost"
server = ""
store = "sqlite:///{folder}/queue.db"

[stomp]
listen = "{host}:{port}"
connections = 100000
connections_per_login = 100000

[[user]]
name = "{user}"
password = "{password}"

[[node]]
name = "jobs"
queueing = true
owners = ["boss@queue.localhost"]
publishers = ["{user}@queue.localhost"]
members = ["{user}@queue.localhost"]
"""

RABBITMQ: Final = """\
listeners.tcp.default = {host}:{port}
stomp.listeners.tcp.1 = {host}:{stomp}
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker: its process, and how a client connects to it."""

    name: str
    pid: int
    port: int
    login: tuple[str, str] | None = None
    """The headers of STOMP clients; None for another protocol."""
    more: bytes = b""
    """The headers of a SEND that is on disk before its receipt."""
    connect: Callable[[], Awaitable[Client]] | None = None
    """How a client connects that does not speak STOMP."""

    @property
    def has_beats(self) -> bool:
        """Whether it speaks STOMP."""
        return self.login is not None

    async def client(self, beats: str = "0,0", host: str = HOST) -> Client:
        """Return a client that has logged in."""
        if self.connect is not None:
            return await self.connect()
        assert self.login is not None
        client = await StompClient.to(self.port, host)
        client.more = self.more
        await client.connect(*self.login, beats)
        return client

    def spent(self) -> float:
        """Return the seconds of processor time that it has used, with the processes that it has started."""
        return sum(map(processor_time, (self.pid, *children(self.pid))))


@asynccontextmanager
async def pubqueue(
    folder: Path, launcher: Sequence[str] = (), python: str = sys.executable
) -> AsyncIterator[Broker]:
    """Serve a queue from a SQLite file. `launcher` is a module that runs the service's, and its arguments; `python` runs it."""
    (port,) = free_ports(1)
    password = credentials.make(PASSCODE).text
    config = folder / "pubqueue.toml"
    config.write_text(
        CONFIG.format(folder=folder, host=HOST, port=port, user=USER, password=password)
    )
    config.chmod(0o600)
    words = [python, "-m", *launcher, "pubqueue", "serve", "--config", config]
    async with running("pubqueue", words, folder, port, {"PYTHONPATH": str(ROOT)}) as pid:
        yield Broker("pubqueue", pid, port, (USER, PASSCODE))


@asynccontextmanager
async def rabbitmq(folder: Path) -> AsyncIterator[Broker]:
    """Serve STOMP with RabbitMQ's plugin: queues are durable, and messages persistent."""
    port, stomp, distribution, names = free_ports(4)
    (folder / "rabbitmq.conf").write_text(RABBITMQ.format(host=HOST, port=port, stomp=stomp))
    (folder / "plugins").write_text("[rabbitmq_stomp].\n")
    environment = {
        "HOME": str(folder),  # of the cookie
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": HOST,
        "RUNNING_UNDER_SYSTEMD": "true",  # it becomes the Erlang machine, and starts no other process for it
    }
    epmd = ["epmd", "-port", str(names), "-address", HOST]
    server = [_program("rabbitmq")]
    async with (
        running("epmd", epmd, folder, names),
        running("rabbitmq", server, folder, stomp, environment) as pid,
    ):
        yield Broker("rabbitmq", pid, stomp, ("guest", "guest"), b"persistent:true\n")


@asynccontextmanager
async def beanstalkd(folder: Path) -> AsyncIterator[Broker]:
    """Serve with beanstalkd, which syncs its log after each write."""
    (port,) = free_ports(1)
    words = [_program("beanstalkd"), "-l", HOST, "-p", str(port), "-b", str(folder), "-f", "0"]
    async with running("beanstalkd", words, folder, port) as pid:
        yield Broker("beanstalkd", pid, port, connect=partial(BeanstalkClient.to, port))


@asynccontextmanager
async def redis(folder: Path) -> AsyncIterator[Broker]:
    """Serve with Redis, which syncs its log of commands before it answers."""
    (port,) = free_ports(1)
    place = ("--bind", HOST, "--port", str(port), "--dir", str(folder))
    disk = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    words = [_program("redis"), *place, *disk]
    async with running("redis", words, folder, port) as pid:
        await RedisClient.make_group(port)
        yield Broker("redis", pid, port, connect=partial(RedisClient.to, port))


@asynccontextmanager
async def in_postgresql(_folder: Path) -> AsyncIterator[Broker]:
    """Serve the tables of Procrastinate with PostgreSQL, which syncs its log at each commit."""
    async with Postgres() as postgres:
        await ProcrastinateClient.make_tables(postgres.address)
        connect = partial(ProcrastinateClient.to, postgres.address)
        yield Broker("procrastinate", postgres.pid, postgres.port, connect=connect)


@asynccontextmanager
async def running(
    name: str,
    words: Sequence[str | Path],
    folder: Path,
    port: int,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[int]:
    """Run a program, from when it accepts connections."""
    child = await spawn(
        words,
        name=name,
        log=folder / "log.txt",
        env=os.environ | (environment or {}),
        cwd=folder,
        read=False,
    )
    try:
        async with asyncio.timeout(READY):
            while not await _accepts(port):
                if not child.running:
                    raise ChildError(name, "has ended", child.log)
                await asyncio.sleep(LOOK)
        yield child.pid
    except TimeoutError:
        raise ChildError(name, f"does not serve after {READY:g} s", child.log) from None
    finally:
        await child.stop()


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


PROGRAMS: Final[Mapping[str, str]] = {
    "rabbitmq": "/usr/lib/rabbitmq/bin/rabbitmq-server",  # the program in PATH serves the machine
    "beanstalkd": "beanstalkd",
    "redis": "redis-server",
}
"""The programs of others."""

BROKERS: Final[Mapping[str, Callable[[Path], AbstractAsyncContextManager[Broker]]]] = {
    "pubqueue": pubqueue,
    "rabbitmq": rabbitmq,
    "beanstalkd": beanstalkd,
    "redis": redis,
    "procrastinate": in_postgresql,
}


def installed() -> list[str]:
    """Return the brokers that are installed on this machine."""
    return [name for name in BROKERS if name not in PROGRAMS or shutil.which(PROGRAMS[name])]


def _program(name: str) -> str:
    found = shutil.which(PROGRAMS[name])
    if found is None:
        raise BenchError(f"{name} is not installed; `make setup` does that")
    return found


@asynccontextmanager
async def started(
    names: Sequence[str], python: str = sys.executable
) -> AsyncIterator[list[Broker]]:
    """Run these brokers at the same time, pubqueue with this Python; only one has work at a time."""
    brokers = {**BROKERS, "pubqueue": partial(pubqueue, python=python)}
    async with AsyncExitStack() as stack:
        found = []
        for name in names:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pq-")))
            found.append(await stack.enter_async_context(brokers[name](folder)))
        yield found
