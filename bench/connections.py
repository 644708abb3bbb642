"""`.venv/bin/python -m bench.connections`: the memory and processor time of idle connections.

A separate program listens. This one connects; each client sends a line and is answered, and then all are idle. The
growth of the program since before the first connection is their cost. Then SIGTERM ends it, with all of them connected.
Measured are the listener alone, which echoes what clients send, and the toy face of the tests in a complete service,
whose clients log in. TLS costs much more, because OpenSSL keeps its state for each connection.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import click
import uvloop
from harness.processes import toy_service
from harness.servers.tls import certify
from harness.servers.users import RIGHT

from pubqueue import logs
from pubqueue.faces.listener import Bounds, ClientConnection, Listener, Place, Tls, TlsFiles

HOST: Final = "127.0.0.1"
BOUND: Final = 96
"""The goal for 10,000 without TLS, in MiB."""
IDLE: Final = 10.0
"""How long they are watched, in seconds."""
AT_ONCE: Final = 200
MIB: Final = 1 << 20


class Repeater(asyncio.Protocol):
    """Echoes what it receives."""

    __slots__ = ("connection",)

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def data_received(self, data: bytes) -> None:
        self.connection.log_in(data.decode())
        self.connection.write(data)


async def serve(count: int, certificate: str, key: str) -> None:
    logs.configure("error")
    tls = Tls(TlsFiles(certificate, key), face="bench") if certificate else None
    bounds = Bounds(connections=count, per_peer=count, per_user=count, idle=3600)
    listener = Listener("bench", Repeater, bounds)
    await listener.open([Place(HOST, 0, tls)])
    print(listener.addresses[0][1], flush=True)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    await ending.wait()
    await listener.stop()


def resident(process: int) -> float:
    """Return the memory of a process, in MiB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


def used(process: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


LISTENER: Final = "listener"
TOY_FACE: Final = "toy face"
WORDS: Final = {
    LISTENER: b"user\n",
    TOY_FACE: f"LOGIN {toy_service.NAME} {RIGHT}\n".encode(),
}
"""The line that each client sends; the answer is a line."""


def command(what: str, count: int, folder: str, files: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a program that accepts this many connections, prints its port, and ends at SIGTERM."""
    if what == LISTENER:
        return ("bench.connections", "--serve", str(count), *(files or ("", "")))
    return (toy_service.__name__, f"sqlite:///{folder}/queue.db", str(count), *files)


async def connect(port: int, words: bytes, context: object) -> asyncio.StreamWriter:
    more = {} if context is None else {"ssl": context, "server_hostname": "localhost"}
    reader, writer = await asyncio.open_connection(HOST, port, **more)
    writer.write(words)
    answer = await reader.readline()
    assert answer in {words, b"OK\n"}, answer
    return writer


async def measure(what: str, count: int, *, tls: bool) -> float:
    """Print the costs, and return the MiB."""
    with tempfile.TemporaryDirectory() as folder:
        files = tuple(map(str, await certify(Path(folder), "localhost")))[::-1] if tls else ()
        words = command(what, count, folder, files)
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *words),
            stdout=-1,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert program.stdout is not None
        port = int(await program.stdout.readline())
        before = resident(program.pid)
        context = trusting(str(files[0])) if tls else None
        began = time.monotonic()
        clients: list[asyncio.StreamWriter] = []
        while len(clients) < count:
            some = min(AT_ONCE, count - len(clients))
            said = WORDS[what]
            clients += await asyncio.gather(*(connect(port, said, context) for _ in range(some)))
        took, grown, spent = (
            time.monotonic() - began,
            resident(program.pid) - before,
            used(program.pid),
        )
        await asyncio.sleep(IDLE)
        spent = used(program.pid) - spent
        ended = time.monotonic()
        program.terminate()
        await program.wait()
        ended = time.monotonic() - ended
        print(
            f"{what}: {count:,} idle connections{' with TLS' if tls else ''}: {grown:.1f} MiB, {grown * 1024 / count:.1f} KiB each;"
            f" connected in {took:.1f} s; idle they take {100 * spent / IDLE:.1f} % of a core; ended {ended:.1f} s after SIGTERM"
        )
        for one in clients:
            one.transport.abort()
        return grown


def trusting(certificate: str) -> object:
    import ssl  # noqa: PLC0415

    return ssl.create_default_context(cafile=certificate)


@click.command()
@click.option("--count", default=10_000, show_default=True)
@click.option(
    "--serve", "served", nargs=3, type=(int, str, str), help="Be the program that listens."
)
def main(count: int, served: tuple[int, str, str] | None) -> None:
    """Measure idle connections, without TLS and with it."""
    if served is not None:
        uvloop.run(serve(*served))
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    grown = []
    for what in WORDS:
        grown.append(uvloop.run(measure(what, count, tls=False)))
        uvloop.run(measure(what, min(count, 2_000), tls=True))
    sys.exit(max(grown) > BOUND * count / 10_000)


if __name__ == "__main__":
    main()
