"""`.venv/bin/python -m bench.memory`: the component's memory under endless loads.

This program is the server, and reads and writes as fast as it can. Each load has its own component and store. Meanwhile
a trickle of requests goes to another node, and their waits are measured. In a load that fills the stream, these include
the time for the stanzas sent before them.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click
from harness.processes.program import Program, write_config
from rich.console import Console
from rich.table import Table

from bench.wire import HEADER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SERVICE: Final = "queue.localhost"
ETL: Final = "etl@localhost/x"
BOUND: Final = 96
"""The limit above idle under any of these loads, in MiB."""

MIB: Final = 1 << 20
EVERY: Final = 0.02
"""Seconds between two requests of the trickle."""

NODES: Final = """
subscriptions_per_account = 1_000
[[node]]
name = "jobs"
queueing = true
publishers = ["etl0@localhost", "etl1@localhost", "etl2@localhost", "etl3@localhost", "etl4@localhost"]
[node.options]
"pubsub#max_payload_size" = 262144
[[node]]
name = "trickle"
queueing = true
publishers = ["etl@localhost"]
[[node]]
name = "news"
publishers = ["etl@localhost"]
options = { "pubsub#access_model" = "open", "pubsub#max_payload_size" = 262144, "pubsub#max_items" = 100 }
"""
_PUBSUB: Final = "<pubsub xmlns='http://jabber.org/protocol/pubsub'>{}</pubsub>"
_TRICKLE: Final = re.compile(rb'id="t(\d+)"')


@dataclass
class Wire:
    """The server's end of the component's stream; counts its stanzas, and the waits of the trickle."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    byte_count: int = 0
    counts: dict[bytes, int] = field(default_factory=lambda: {b"</message>": 0, b'id="a': 0})
    asked: dict[int, float] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, number: str, inner: str, by: str = ETL, kind: str = "set") -> None:
        """Send a pubsub request; wait while the component reads no more."""
        head = f"<iq type='{kind}' id='{number}' from='{by}' to='{SERVICE}'>"
        self.writer.write((head + _PUBSUB.format(inner) + "</iq>").encode())
        await self.writer.drain()

    async def until(self, what: bytes, count: int) -> None:
        """Wait until this many of these have been sent."""
        while self.counts[what] < count:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 120)

    async def read(self) -> None:
        """Read until cancelled."""
        rest = b""
        while data := await self.reader.read(1 << 18):
            self.byte_count += len(data)
            known = rest + data
            for what in self.counts:  # what the last piece ends with is too short for another
                self.counts[what] += known.count(what) - rest.count(what)
            for found in _TRICKLE.finditer(known):
                if (sent := self.asked.pop(int(found[1]), None)) is not None:
                    self.waits.append(time.perf_counter() - sent)
            rest = known[-64:]
            self.news.set()

    async def trickle(self) -> None:
        """Publish at intervals, and record the times."""
        for number in range(1 << 30):
            self.asked[number] = time.perf_counter()
            await self.ask(f"t{number}", f"<publish node='trickle'>{_item('small', 100)}</publish>")
            await asyncio.sleep(EVERY)


def _item(kind: str, size: int) -> str:
    return f"<item><{kind} xmlns='urn:x'>{'x' * size}</{kind}></item>"


async def fan_out(wire: Wire, scale: float) -> None:
    """Publish 195 KiB to 5,000 subscribers."""
    people = max(1, round(5000 * scale))
    for number in range(people):
        jid = f"reader{number // 1000}@localhost/{number}"
        await wire.ask(f"a{number}", f"<subscribe node='news' jid='{jid}'/>", by=jid)
    await wire.until(b'id="a', people)
    trickling = asyncio.create_task(wire.trickle())
    await wire.ask("a", f"<publish node='news'>{_item('news', 195 * 1024)}</publish>")
    await wire.until(b"</message>", people)
    trickling.cancel()


async def many_small(wire: Wire, scale: float) -> None:
    """Publish 40,000 items as fast as they are read."""
    await _publish(wire, round(40_000 * scale), 200)


async def many_large(wire: Wire, scale: float) -> None:
    """Publish 6,000 items of 60 kB as fast as they are read."""
    await _publish(wire, round(6_000 * scale), 60_000)


async def many_pages(wire: Wire, scale: float) -> None:
    """Request large pages 1,000 times at once."""
    for number in range(20):
        await wire.ask(f"a{number}", f"<publish node='news'>{_item('news', 40_000)}</publish>")
    trickling = asyncio.create_task(wire.trickle())
    count = round(1_000 * scale)
    for number in range(count):
        by = f"reader{number % 50}@localhost/x"
        await wire.ask(f"a{number}", "<items node='news'/>", by=by, kind="get")
    await wire.until(b'id="a', 20 + count)
    trickling.cancel()


async def _publish(wire: Wire, count: int, size: int) -> None:
    trickling = asyncio.create_task(wire.trickle())
    for number in range(count):  # of several accounts: one alone would be told to wait
        item = f"<publish node='jobs'>{_item('job', size)}</publish>"
        await wire.ask(f"a{number}", item, by=f"etl{number % 5}@localhost/x")
    await wire.until(b'id="a', count)
    trickling.cancel()


LOADS: Final[dict[str, Callable[[Wire, float], Awaitable[None]]]] = {
    "fan-out": fan_out,
    "many small": many_small,
    "many large": many_large,
    "many pages": many_pages,
}


@dataclass(frozen=True)
class Sample:
    """The result of a load: MiB above idle at the peak, seconds, MiB sent, milliseconds waited."""

    load: str
    grown: float
    seconds: float
    said: float
    worst: float
    usual: float


async def measure(load: str, scale: float = 1.0) -> Sample:
    """Run a load against a new component."""
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as (wire, program):
            idle = resident(program.pid, "VmRSS")
            forget_peak(program.pid)
            began = time.perf_counter()
            await LOADS[load](wire, scale)
            seconds = time.perf_counter() - began
            grown = resident(program.pid, "VmHWM") - idle
            waits = sorted(wire.waits) or [0.0]
            await program.kill()
    half = waits[len(waits) // 2]
    return Sample(load, grown, seconds, wire.byte_count / MIB, waits[-1] * 1000, half * 1000)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Wire, Program]]:
    """Run a component, and be its server."""
    accepted: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b">")  # the XML declaration, then the header
        address = f"from='{SERVICE}' id='memory'"
        writer.write(HEADER.format(ns="jabber:component:accept", address=address).encode())
        await reader.readuntil(b"</handshake>")
        writer.write(b"<handshake/>")
        accepted.set_result(wire := Wire(reader, writer))
        await wire.read()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        place: Any = SimpleNamespace(domain=SERVICE, secret="secret", host=host, port=port)
        async with Program(write_config(folder, place, NODES)) as program:
            wire = await accepted
            yield wire, program
        wire.writer.close()
        with suppress(ConnectionError):
            await wire.writer.wait_closed()


def resident(pid: int, what: str) -> float:
    """Return a process's memory by the kernel's count, in MiB."""
    status = Path("/proc", str(pid), "status").read_text()
    (found,) = re.findall(rf"{what}:\s+(\d+) kB", status)
    return int(found) / 1024


def forget_peak(pid: int) -> None:
    """Reset the peak."""
    Path("/proc", str(pid), "clear_refs").write_text("5")


@click.command(context_settings={"show_default": True})
@click.option("--scale", default=1.0, help="The fraction of each load to run.")
@click.option("--load", "loads", multiple=True, type=click.Choice(list(LOADS)))
def main(*, scale: float, loads: tuple[str, ...]) -> None:
    """Measure how the memory of the component grows under each load."""
    table = Table(title=f"memory, bound {BOUND} MiB above idle")
    for column in ("load", "MiB above idle", "s", "MiB said", "worst wait, ms", "median wait, ms"):
        table.add_column(column, justify="left" if column == "load" else "right")
    for load in loads or tuple(LOADS):
        one = asyncio.run(measure(load, scale))
        figures = (one.grown, one.seconds, one.said, one.worst, one.usual)
        table.add_row(load, *(f"{figure:.1f}" for figure in figures))
    Console().print(table)


if __name__ == "__main__":
    main()
