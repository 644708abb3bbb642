"""A crowd at work while its service loses the store: requests are refused with *wait*, and repeated until they are not."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from harness.patience import LOOK, until
from harness.stores.recount import Count
from harness.stores.store_contents import contents, nodes, recount

from pubqueue.stores import store_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.clients.crowd import Crowd, Delivery

    from pubqueue.engine.ports import Transaction

NODE: Final = """
[[node]]
name = "jobs"
queueing = true
owners = ["etl@localhost"]
publishers = ["etl@localhost"]
members = ["bee@localhost", "wasp@localhost"]
options = { "pubsub#max_payload_size" = 262144 }
"""
BEE, WASP = "bee@localhost/x", "wasp@localhost/x"
WAIT: Final = "wait internal-server-error"


class Stubborn:
    """Publishes and works for a crowd, and counts refusals with *wait*."""

    def __init__(self, people: Crowd) -> None:
        self._people = people
        self.refused: Counter[str] = Counter()
        self.enough = False
        self._during: list[asyncio.Task[None]] = []
        people.handle = self.work

    async def publish(self, names: Sequence[str]) -> None:
        """Publish until it is confirmed."""
        while (answer := await self._people.publish(*names)) != "result":
            self._waits("publish", answer)

    async def keep_publishing(self) -> None:
        """Publish one batch after the other until `enough` is set."""
        for turn in itertools.count():
            if self.enough:
                break
            await self.publish([f"{turn}.{number}" for number in range(5)])

    async def fill(self, payload: str, is_full: Callable[[], bool]) -> None:
        """Publish large items until one is refused and there is no room for them: it may be refused for something else before."""
        for number in itertools.count():
            answer = await self._people.publish(f"large{number}", payload=payload)
            if answer != "result":
                self._waits("large", answer)
                if is_full():
                    break

    async def work(self, delivery: Delivery) -> None:
        """Retract until it is answered."""
        while (answer := await self._people.retract(delivery)) == WAIT:
            self._waits("retract", answer)
        held = self._people.ledger.holds(delivery.to, delivery.item, delivery.token)
        assert answer == "result" or not held, f"{delivery} is refused: {answer}"

    async def are_refused(self) -> None:
        """Return when a new request has been refused with *wait*.

        Another party publishes each second: requests in progress now, the first of these too, may be in a commit whose outcome is
        unknown until the store is back. Requests after that commit are refused.
        """
        before = self.refused.total()
        while self.refused.total() == before:
            name = f"during-{len(self._during)}"
            self._during.append(self._people.spawn(self.publish([name])))
            with suppress(TimeoutError):
                await until(lambda: self.refused.total() != before, every=LOOK, within=1)

    async def confirmed(self) -> None:
        """Return when the items that were published during the refusals are confirmed."""
        await asyncio.gather(*self._during)

    def _waits(self, what: str, answer: str) -> None:
        assert answer == WAIT, answer
        self.refused[what] += 1


async def count(address: str) -> Count:
    """Count the contents of a store, from outside."""
    store = store_at(address)
    await store.open()
    try:
        return await store.batch(_counted)
    finally:
        await store.close()


def _counted(tx: Transaction) -> Count:
    items = {
        (node.name, item.id): item.state.value
        for node in nodes(tx)
        for item, _ in contents(tx, node.name)
    }
    return Count(items, tuple(recount(tx)))
