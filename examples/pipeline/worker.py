"""Do orders until SIGTERM. Some fail at their first attempt: they are given back, and come again.

XMPP_JID=bot@example.org XMPP_PASSWORD=... python worker.py queue.example.org orders
"""

import asyncio
import os
import random
import sys

import msgspec

from pubqueue_xeps.item import Item
from pubqueue_xeps.outcome import Reject
from pubqueue_xeps.worker import Worker


class Order(msgspec.Struct):
    """What streams.py makes of a line, as JSON."""

    order: str
    customer: str
    total: float


async def handle(item: Item) -> None:
    if item.payload is None or item.payload.text is None:
        raise Reject("There is no order.")
    order = msgspec.json.decode(item.payload.text, type=Order)
    await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311  the work
    if order.order.endswith("7") and order.total < 100 and item.attempt == 1:  # noqa: PLR2004
        raise ConnectionError("the bank does not answer")


env = os.environ
worker = Worker(
    env["XMPP_JID"],
    env["XMPP_PASSWORD"],
    service=sys.argv[1],
    node=sys.argv[2],
    requests=8,
    host=env.get("XMPP_HOST"),
    port=int(env.get("XMPP_PORT", "5222")),
    tls=env.get("XMPP_TLS", "required"),
)
asyncio.run(worker.run(handle))
