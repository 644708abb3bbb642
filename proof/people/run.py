"""People answer all questions of a queue, once each, while everything between them and the queue is killed at random moments.

What is looked at in the end: the event log has one `completed` for each item and nothing dead, and nobody was asked a question
again after it had been answered.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from harness.clients.answering import Answering
from harness.operators.at_a_terminal import Operator
from harness.patience import TIMEOUT, until
from harness.servers.behind import SERVICE, address_of, logged_in
from harness.servers.live import component

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import PubqueueError
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.reading import Reader
from pubqueue_xeps.wire.publication import NewItem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NODE: Final = """
[[node]]
name = "approvals"
queueing = true
publishers = ["etl@localhost", "bot@localhost"]
options = { "x-queueing#event_log" = true, "x-queueing#dedup_window" = 3600 }
"""
QUICK: Final = Timings(backoff_min=0.05, backoff_max=0.5, answer=5)


@dataclass
class Found:
    """What the run has found, with the names of the items."""

    published: set[str]
    completed: Counter[str] = field(default_factory=Counter)
    dead: list[str] = field(default_factory=list)
    asked_again: list[str] = field(default_factory=list)
    messages: int = 0
    """Questions that people got; more than there are items if some were sent twice."""
    kills: Counter[str] = field(default_factory=Counter)

    def wrong(self) -> list[str]:
        """Return what must not be."""
        twice = [name for name, count in self.completed.items() if count > 1]
        return [
            *(f"{name} was never answered" for name in self.published - self.completed.keys()),
            *(f"{name} was ended twice" for name in twice),
            *(f"{name} is dead" for name in self.dead),
            *(f"{name} was asked after its answer" for name in self.asked_again),
        ]


async def run(
    server: Any, folder: Path, *, questions: int, people: int, window: int, kills: int, seed: int
) -> Found:
    """Have so many people answer so many questions; kill so often, each time at another share of the work."""
    draw = random.Random(seed)
    names = [f"p{number}" for number in range(people)]
    for name in ("etl", "bot", *names):
        await server.account(name, "secret")
    found = Found({f"q{number}" for number in range(questions)})
    words = ["people", "--node", "approvals", "--window", f"{window}", "--quiet"]
    words += [word for name in names for word in ("--ask", f"{name}@localhost")]
    async with AsyncExitStack() as stack:
        program = await stack.enter_async_context(component(server, folder, NODE))
        bot = await stack.enter_async_context(Killable(Operator(server, "bot"), words))
        answering = [
            await stack.enter_async_context(Answering(server, f"{name}@localhost/desk"))
            for name in names
        ]
        async with Publisher(
            "etl@localhost", "secret", service=SERVICE, timings=QUICK, **address_of(server)
        ) as etl:
            items = [
                NewItem(payload={"ask": f"Ship order {name}?"}, id=name)
                for name in sorted(found.published)
            ]
            await etl.publish_many("approvals", items, timeout=TIMEOUT)
        victims = {"bot": bot, "service": program, "server": server}
        for number in range(kills):
            due = questions * (number + 1) // (kills + 1)
            await until(lambda due=due: _asked(answering) >= due, every=0.05, within=None)
            victim = draw.choice([*victims, "person", "person"])
            found.kills[victim] += 1
            if victim == "person":
                draw.choice(answering).die()
            else:
                await victims[victim].kill()
                await victims[victim].start()
        await until(lambda: _is_empty(server), every=0.5, within=None)
        await _read(server, found)
    found.asked_again = [name for one in answering for name in one.again]
    found.messages = sum(sum(one.asked.values()) for one in answering)
    return found


class Killable:
    """A program of an operator, which can be killed and started."""

    def __init__(self, operator: Operator, words: list[str]) -> None:
        self._operator, self._words = operator, words
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self) -> None:
        """Start it."""
        running = self._operator.running(*self._words)
        self._process = await self._stack.enter_async_context(running)

    async def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        await self._process.wait()


def _asked(answering: list[Answering]) -> int:
    """Return how many questions were asked; that one has ended is not always told, if the server is killed."""
    return sum(len(one.asked) for one in answering)


async def _is_empty(server: Any) -> bool:
    try:
        async with logged_in(server) as client:
            page = await Reader(client, SERVICE).item_page("approvals", most=1, payload=False)
    except (PubqueueError, OSError):
        return False  # it is being started
    return not page.entries


async def _read(server: Any, found: Found) -> None:
    async with logged_in(server) as client:
        reader = Reader(client, SERVICE)
        events: AsyncIterator[Any] = reader.events(node="approvals")
        async for event in events:
            if event.type == "completed":
                found.completed[event.item] += 1
            elif event.type == "dead":
                found.dead.append(event.item)
