"""Do the work of a queue until SIGTERM or Ctrl-C, and then finish what is in hand.

    XMPP_JID=bot@example.org XMPP_PASSWORD=... python examples/worker.py queue.example.org jobs

XMPP_HOST and XMPP_PORT name the server, where DNS does not; XMPP_TLS=off is for loopback only.
"""

import asyncio
import os
import sys

import msgspec

from pubqueue_xeps.item import Item
from pubqueue_xeps.outcome import Reject
from pubqueue_xeps.worker import Worker


class Job(msgspec.Struct):
    """What the payload `<job>rebook me</job>` says."""

    text: str


async def handle(item: Item) -> None:
    job = item.decode(Job)
    if not job.text:  # dead at once; whatever else is raised is tried again
        raise Reject("There is nothing to do.")
    print(f"{item.id}: {job.text.upper()}", flush=True)


account = os.environ["XMPP_JID"], os.environ["XMPP_PASSWORD"]
host, port = os.environ.get("XMPP_HOST"), int(os.environ.get("XMPP_PORT", "5222"))
server = {"host": host, "port": port, "tls": os.environ.get("XMPP_TLS", "required")}
worker = Worker(*account, service=sys.argv[1], node=sys.argv[2], requests=10, **server)
asyncio.run(worker.run(handle))
