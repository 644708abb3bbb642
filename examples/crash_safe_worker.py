"""A worker that does nothing twice: it stores each result in a database before it retracts the item.

PUBQUEUE_URL=... PUBQUEUE_PASSWORD=... python examples/crash_safe_worker.py jobs results.db
"""

import asyncio
import sqlite3
import sys

import msgspec

from pubqueue import Item, Worker

results = sqlite3.connect(sys.argv[2])
results.execute("CREATE TABLE IF NOT EXISTS result (item TEXT PRIMARY KEY, text TEXT NOT NULL)")


class Job(msgspec.Struct):
    """The payload: `{"text": "rebook me"}`."""

    text: str


async def handle(item: Item) -> None:
    if results.execute("SELECT 1 FROM result WHERE item = ?", (item.id,)).fetchone():
        return print(f"{item.id} was done before", flush=True)  # but was not retracted
    text = item.decode(Job).text.upper()
    with results:  # the work and its record: one transaction, on disk before we return
        results.execute("INSERT INTO result VALUES (?, ?)", (item.id, text))
    return print(f"{item.id} is done", flush=True)


asyncio.run(Worker(node=sys.argv[1], requests=10).run(handle))
