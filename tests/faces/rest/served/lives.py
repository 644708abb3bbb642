"""Messages through REST while the service is killed and consumers die: `python -m faces.rest.served.lives`, for `make faults`.

Four consumers take and acknowledge, and one of them dies with a message in hand, again and again. At the end each message has had
exactly one 204, and nothing is left in the store.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import click
import httpx
from faces.rest.clients import follow, links
from faces.rest.served.service import NODES, RestService, on_port
from harness.patience import LOOK, until
from harness.stores.recount import recount

from pubqueue_demo.prosody import free_ports

CONSUMERS = ("bee", "ann", "bee", "ann")
MORTAL = 3
"""The consumer that dies now and then."""


class Lives:
    """One run; `kills` is how often the service is killed meanwhile."""

    def __init__(self, folder: Path, messages: int, kills: int, seed: int = 1) -> None:
        (port,) = free_ports(1)
        nodes = NODES.replace('"x-queueing#backoff_min" = 0', '"x-queueing#lock_timeout" = 2')
        self._service = RestService(folder, on_port(port), nodes)
        self._store = folder / "pubqueue.db"
        self._messages, self._kills, self._draw = messages, kills, Random(seed)
        self._up = asyncio.Event()
        self.published: set[str] = set()
        self.confirmed: Counter[str] = Counter()
        """204s by message."""
        self.repeated: set[str] = set()
        """Messages whose acknowledgement was told as a repetition: the 204 was lost with the service."""

    async def run(self) -> None:
        """Publish all, and work until all are acknowledged."""
        await self._service.start()
        self._up.set()
        tasks = [asyncio.create_task(self._publish())]
        tasks += [
            asyncio.create_task(self._consume(name, is_mortal=at == MORTAL))
            for at, name in enumerate(CONSUMERS)
        ]
        killing = asyncio.create_task(self._kill())
        try:
            await asyncio.gather(*tasks)
            await killing
        finally:
            for task in (*tasks, killing):
                task.cancel()
            await asyncio.gather(*tasks, killing, return_exceptions=True)
            await self._service.stop()

    @property
    def _is_done(self) -> bool:
        return len(self.confirmed.keys() | self.repeated) >= self._messages

    async def _kill(self) -> None:
        """Kill the service whenever another part of the messages is done."""
        for number in range(1, self._kills + 1):
            part = self._messages * number / (self._kills + 1)
            await until(lambda: len(self.confirmed) >= part, every=LOOK, within=None)  # noqa: B023
            self._up.clear()
            await self._service.kill()
            await self._service.start()
            self._up.set()

    async def _publish(self) -> None:
        while len(self.published) < self._messages:
            try:
                async with self._service.client() as etl:
                    to = await follow(etl, "/queues/jobs", "post-message")
                    for name in map(str, range(self._messages)):
                        if name not in self.published:
                            key = {"Idempotency-Key": f'"{name}"', "Message-Id": name}
                            answer = await etl.post(to, content=name, headers=key)
                            if answer.status_code in {200, 201}:
                                self.published.add(name)
            except (httpx.TransportError, AssertionError):
                await self._up.wait()

    async def _consume(self, user: str, *, is_mortal: bool) -> None:
        while not self._is_done:
            try:
                async with self._service.client(user) as client:
                    consumer = await follow(client, "/queues/jobs", "consumer")
                    while not self._is_done:
                        message = await client.post(consumer, headers={"Accept-Wait": "1"})
                        if message.status_code != 200:
                            continue
                        if is_mortal and self._draw.random() < 0.2:
                            break  # it dies, and its lock runs out
                        await self._acknowledge(client, message)
            except (httpx.TransportError, AssertionError):
                await self._up.wait()

    async def _acknowledge(self, client: httpx.AsyncClient, message: httpx.Response) -> None:
        """Repeat it until there is an answer: 204, 405 if it was done before, or 412 if the lock is over."""
        where, name = links(message)["acknowledgement"], message.text
        while True:
            try:
                answer = await client.post(where, data={"acknowledge": "true"})
            except httpx.TransportError:
                await self._up.wait()
                continue
            if answer.status_code == 204:
                self.confirmed[name] += 1
            elif answer.status_code == 405:
                self.repeated.add(name)
            elif answer.status_code == 503:
                await self._up.wait()
                continue
            return

    def wrong(self) -> list[str]:
        """Return what is wrong, in sentences."""
        found = recount(self._store)
        wrong = list(found.wrong)
        wrong += [
            f"{name} was confirmed {many} times"
            for name, many in self.confirmed.items()
            if many > 1
        ]
        both = self.confirmed.keys() & self.repeated
        wrong += [f"{name} was confirmed, and then told as done before" for name in both]
        wrong += [f"{name} is left" for name in found.of("jobs")]
        missing = self.published - self.confirmed.keys() - self.repeated
        return wrong + [f"{name} was published and never acknowledged" for name in missing]


@click.command(context_settings={"show_default": True})
@click.option("--items", default=10_000, help="Messages to bring through.")
@click.option("--kills", default=20, help="How often the service is killed.")
@click.option("--seed", default=1, help="Which deaths consumers die.")
def main(items: int, kills: int, seed: int) -> None:
    """Bring messages through REST while the service is killed and consumers die."""
    with tempfile.TemporaryDirectory(prefix="pubqueue-rest-") as folder:
        lives = Lives(Path(folder), items, kills, seed)
        asyncio.run(lives.run())
        wrong = lives.wrong()
    click.echo(
        f"rest: {items} messages, {kills} kills: {len(lives.confirmed)} times 204,"
        f" {len(lives.repeated)} times 405, {len(wrong)} wrong"
    )
    for one in wrong:
        click.echo(one)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
