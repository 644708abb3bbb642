"""Publish all lines of the standard input, or none: each line is an item of work.

    PUBQUEUE_URL=xmpp://etl@example.org/queue.example.org PUBQUEUE_PASSWORD=... python examples/batch_publisher.py jobs 20261121

The number rises with each run, a date for example. A run that died, or of which nobody knows how it ended, is
repeated with its number: what it had committed is not published again. Lines are numbered, so ids stay the same.
"""

import asyncio
import sys

from pubqueue_xeps.batch import Batch
from pubqueue_xeps.client import login, logout
from pubqueue_xeps.connection import PartialConnection, connection


async def main(node: str, version: str) -> None:
    queue = connection(PartialConnection(), role="publisher")
    client = queue.client()
    await login(client)
    async with Batch(client, queue.service, app="batch-publisher", version=int(version)) as batch:
        for line in sys.stdin:
            await batch.publish(node, {"text": line.strip()})
    print("was there already" if batch.committed.already else f"{batch.committed.published} new")
    await logout(client)


asyncio.run(main(*sys.argv[1:]))
