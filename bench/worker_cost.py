"""`.venv/bin/python -m bench.worker_cost`: the cost of the worker library itself.

Three clients process the same backlog, in turns: slixmpp with plain handlers; slixmpp's stream alone, without stanza
objects; and our worker with a handler that does nothing. Each gets a delivery, sends the retract, and gets the result
and the delete notification. The table shows the processor time of this process for an item; server and component are
separate processes.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import fromstring

import click
from harness.servers.live import component
from rich.console import Console
from rich.table import Table

from bench.load import NODE, PUBSUB, SERVICE, SUBSCRIBE, payload
from bench.report import spread
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.batch import Batch
from pubqueue_xeps.client.ask import ask
from pubqueue_xeps.client.xmpp_client import Client, login, logout, make_client
from pubqueue_xeps.wire.ns import CLIENT
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.xml_text import quote
from pubqueue_xeps.worker.worker import Worker
from pubqueue_xeps.xep_0254.queueing import EVENT, RETRACT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from xml.etree.ElementTree import Element

    from slixmpp.stanza import Message

PASSWORD: Final = "bench"
MESSAGE: Final = f"{{{CLIENT}}}message"
NOTE: Final = """\
Behind Prosody, a backlog of items of 200 bytes. `slixmpp` has plain handlers, `stream` is slixmpp's connection
and parser alone. The aim is a worker that costs at most 60 µs an item more than slixmpp."""


@dataclass(frozen=True, slots=True)
class Place:
    """The address of the queue, and the window."""

    server: Prosody
    requests: int

    def client(self, name: str) -> Client:
        """Make a client that is not logged in yet."""
        return make_client(
            f"bot@localhost/{name}",
            PASSWORD,
            host=self.server.host,
            port=self.server.c2s_port,
            tls="off",
        )


class Count:
    """Counts items that are done; the clock runs from the end of the first fifth, which is warm-up."""

    def __init__(self, items: int) -> None:
        self._left = items
        self._measured = items - items // 5
        self._over = asyncio.Event()

    def item(self) -> None:
        """Count an item that is done."""
        if self._left == self._measured:
            gc.collect()
            self._begun = time.process_time()
        self._left -= 1
        if not self._left:
            self._spent = time.process_time() - self._begun
            self._over.set()

    async def cost(self) -> float:
        """Return the microseconds of an item, when all are done."""
        async with asyncio.timeout(300):
            await self._over.wait()
        return self._spent / self._measured * 1e6


async def plain(place: Place, items: int) -> float:
    """Work with slixmpp alone."""
    client: Any = place.client("plain")
    client.register_plugin("xep_0060")
    count = Count(items)
    retracts: set[asyncio.Task[None]] = set()

    async def retract(item: str) -> None:
        iq = client.Iq(sto=SERVICE, stype="set")
        iq["pubsub"]["retract"]["node"] = NODE
        iq["pubsub"]["retract"]["item"]["id"] = item
        await iq.send()

    def published(message: Message) -> None:
        item = message["pubsub_event"]["items"]["substanzas"][0]
        task = asyncio.create_task(retract(item["id"]))
        retracts.add(task)
        task.add_done_callback(retracts.discard)

    client.add_event_handler("pubsub_publish", published)
    client.add_event_handler("pubsub_retract", lambda _message: count.item())
    return await _working(client, place, count)


async def stream(place: Place, items: int) -> float:
    """Work with slixmpp's connection and parser alone."""
    client = place.client("stream")
    count = Count(items)

    def take(stanza: Element) -> bool:
        event = stanza.find(EVENT)
        for child in () if event is None else event[0]:
            item = child.get("id", "")
            if child.tag == RETRACT:
                count.item()
            else:
                client.send_raw(
                    f"<iq type='set' id='r-{item}' to='{SERVICE}'><pubsub xmlns='{PUBSUB}'>"
                    f"<retract node='{NODE}'><item id='{item}'/></retract></pubsub></iq>"
                )
        return True

    return await _working(client, place, count, take)


async def _working(
    client: Client, place: Place, count: Count, take: Callable[[Element], bool] | None = None
) -> float:
    await login(client)
    form = SUBSCRIBE.format(
        ns=PUBSUB, node=NODE, jid=quote(client.boundjid.full), requests=place.requests
    )
    asked = asyncio.create_task(ask(client, SERVICE, IqRequest("set", "the subscription", form)))
    if take is not None:  # items come right after the answer, which slixmpp reads
        client.short_way = lambda stanza: (stanza.tag == MESSAGE or asked.done()) and take(stanza)
    await asked
    client.send_presence(pto=SERVICE)  # type: ignore[no-untyped-call]  # or it is not told that we go
    try:
        return await count.cost()
    finally:
        await logout(client)


async def worker(place: Place, items: int) -> float:
    """Work with our library."""
    count = Count(items)

    async def handle(_item: object) -> None:
        count.item()

    bot = Worker(
        "bot@localhost/worker",
        PASSWORD,
        service=SERVICE,
        node=NODE,
        host=place.server.host,
        port=place.server.c2s_port,
        tls="off",
        requests=place.requests,
        signals=(),
    )
    running = asyncio.create_task(bot.run(handle))
    cost = await count.cost()
    await bot.drain()
    await running
    return cost


CLIENTS: Final[dict[str, Callable[[Place, int], Awaitable[float]]]] = {
    "slixmpp": plain,
    "stream": stream,
    "worker": worker,
}


async def measure(items: int, rounds: int, requests: int) -> dict[str, list[float]]:
    """Measure all in turns; the first round is warm-up."""
    found: dict[str, list[float]] = {name: [] for name in CLIENTS}
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        async with Prosody() as server:
            await server.account("bot", PASSWORD)
            await server.account("etl", PASSWORD)
            async with component(server, Path(folder)):
                place = Place(server, requests)
                for number in range(rounds + 1):
                    for name, work in CLIENTS.items():
                        await fill(place, f"{number}-{name}", items)
                        cost = await work(place, items)
                        if number:
                            found[name].append(cost)
    return found


async def fill(place: Place, name: str, items: int) -> None:
    """Fill the backlog."""
    client = make_client(
        "etl@localhost",
        PASSWORD,
        host=place.server.host,
        port=place.server.c2s_port,
        tls="off",
    )
    await login(client)
    work = fromstring(payload(200))
    async with Batch(client, SERVICE, app=name, version=1) as batch:
        for number in range(items):
            await batch.publish(NODE, work, id=f"{name}-{number}")
    await logout(client)


@click.command(context_settings={"show_default": True})
@click.option("--items", default=1000, type=click.IntRange(10), help="Items in a round.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
@click.option("--requests", default=32, type=click.IntRange(1), help="Items held at once.")
def main(*, items: int, rounds: int, requests: int) -> None:
    """Measure the cost of the worker library itself."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)
    found = asyncio.run(measure(items, rounds, requests))
    shown = Table(title=f"{rounds} rounds of {items} items, {requests} at once")
    for title in ("client", "µs an item", "over slixmpp", "over its stream"):
        shown.add_column(title, justify="left" if title == "client" else "right", no_wrap=True)
    for name, costs in found.items():
        over = [
            spread([a - b for a, b in zip(costs, found[other], strict=True)], "{:+.0f}".format)
            for other in ("slixmpp", "stream")
        ]
        shown.add_row(name, spread(costs, "{:.0f}".format), *over)
    console.print(shown)
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
