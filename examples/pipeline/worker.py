"""Handles orders until SIGTERM. Some fail at their first attempt: they are requeued, and delivered again.

PUBQUEUE_URL=xmpp://bot@example.org/queue.example.org PUBQUEUE_PASSWORD=... python worker.py orders
"""

import asyncio
import random
import sys

import msgspec

from pubqueue import Item, Worker


class Order(msgspec.Struct):
    """An order, as streams.py publishes it in JSON."""

    order: str
    customer: str
    total: float


async def handle(item: Item) -> None:
    order = item.decode(Order)
    await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311  the work
    if order.order.endswith("7") and order.total < 100 and item.attempt == 1:  # noqa: PLR2004
        raise ConnectionError("the bank does not answer")


asyncio.run(Worker(node=sys.argv[1], requests=8).run(handle))
