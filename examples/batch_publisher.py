"""Publish all lines of the standard input as items, or none.

    PUBQUEUE_URL=xmpp://etl@example.org/queue.example.org PUBQUEUE_PASSWORD=... python examples/batch_publisher.py jobs 20261121

The number must increase with each run; use a date, for example. After a crash, repeat the run with the same number:
items that it had committed are not published again. Lines are numbered, so their ids stay the same.
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
