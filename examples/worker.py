"""Do the work of a queue until SIGTERM or Ctrl-C, and then finish what is in hand.

    XMPP_JID=bot@example.org XMPP_PASSWORD=... python examples/worker.py queue.example.org jobs

XMPP_HOST and XMPP_PORT name the server, where DNS does not; XMPP_TLS=off is for loopback only.
"""

import asyncio
import os
import sys

from pubqueue_xeps.item import Item
from pubqueue_xeps.worker import Worker


async def handle(item: Item) -> None:
    print(f"{item.id}: {item.payload.text.upper()}", flush=True)


worker = Worker(
    os.environ["XMPP_JID"],
    os.environ["XMPP_PASSWORD"],
    service=sys.argv[1],
    node=sys.argv[2],
    requests=10,
    host=os.environ.get("XMPP_HOST"),
    port=int(os.environ.get("XMPP_PORT", "5222")),
    tls=os.environ.get("XMPP_TLS", "required"),
)
asyncio.run(worker.run(handle))
