"""Do nothing twice: each result is in a database, under the item's id, before its retraction.

XMPP_JID=... XMPP_PASSWORD=... python examples/crash_safe_worker.py queue.example.org jobs results.db
"""

import asyncio
import sqlite3
import sys
from os import environ as env

import msgspec

from pubqueue_xeps.item import Item
from pubqueue_xeps.worker import Worker

results = sqlite3.connect(sys.argv[3])
results.execute("CREATE TABLE IF NOT EXISTS result (item TEXT PRIMARY KEY, text TEXT NOT NULL)")


class Job(msgspec.Struct):
    """What the payload `<job>rebook me</job>` says."""

    text: str


async def handle(item: Item) -> None:
    if results.execute("SELECT 1 FROM result WHERE item = ?", (item.id,)).fetchone():
        return print(f"{item.id} was done before", flush=True)  # but never retracted
    text = item.decode(Job).text.upper()
    with results:  # what the work changes and its record: one transaction, on disk before we return
        results.execute("INSERT INTO result VALUES (?, ?)", (item.id, text))
    return print(f"{item.id} is done", flush=True)


account = env["XMPP_JID"], env["XMPP_PASSWORD"]
host, port = env.get("XMPP_HOST"), int(env.get("XMPP_PORT", "5222"))
server = {"host": host, "port": port, "tls": env.get("XMPP_TLS", "required")}
worker = Worker(*account, service=sys.argv[1], node=sys.argv[2], requests=10, **server)
asyncio.run(worker.run(handle))
