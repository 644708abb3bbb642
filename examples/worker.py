"""Do the work of a queue until SIGTERM or Ctrl-C, and then finish what is in hand.

PUBQUEUE_URL=xmpp://bot@example.org/queue.example.org PUBQUEUE_PASSWORD=... python examples/worker.py jobs
"""

import asyncio
import sys

import msgspec

from pubqueue import Item, Reject, Worker


class Job(msgspec.Struct):
    """What the payload says: `{"text": "rebook me"}`, or the same in XML, `<job>rebook me</job>`."""

    text: str


async def handle(item: Item) -> None:
    job = item.decode(Job)
    if not job.text:  # dead at once; whatever else is raised is tried again
        raise Reject("There is nothing to do.")
    print(f"{item.id}: {job.text.upper()}", flush=True)


asyncio.run(Worker(node=sys.argv[1], requests=10).run(handle))
