"""Do nothing twice: each result is in a database, under the item's id, before its retraction.

    XMPP_JID=bot@example.org XMPP_PASSWORD=... \
        python examples/crash_safe_worker.py queue.example.org jobs results.db

XMPP_HOST and XMPP_PORT name the server, where DNS does not; XMPP_TLS=off is for loopback only.
"""

import asyncio
import os
import sqlite3
import sys

import msgspec

from pubqueue_xeps.item import Item
from pubqueue_xeps.worker import Worker

env = os.environ
results = sqlite3.connect(sys.argv[3])
results.execute("CREATE TABLE IF NOT EXISTS result (item TEXT PRIMARY KEY, text TEXT NOT NULL)")


class Job(msgspec.Struct):
    """What the payload `<job>rebook me</job>` says."""

    text: str


async def handle(item: Item) -> None:
    if results.execute("SELECT 1 FROM result WHERE item = ?", (item.id,)).fetchone():
        return print(f"{item.id} was done before", flush=True)  # but never retracted
    with results:  # what the work changes and its record: one transaction, on disk before we return
        text = item.decode(Job).text.upper()
        results.execute("INSERT INTO result VALUES (?, ?)", (item.id, text))
    return print(f"{item.id} is done", flush=True)


async def main(service: str, node: str) -> None:
    host, port = env.get("XMPP_HOST"), int(env.get("XMPP_PORT", "5222"))
    server = {"host": host, "port": port, "tls": env.get("XMPP_TLS", "required")}
    jid, password = env["XMPP_JID"], env["XMPP_PASSWORD"]
    await Worker(jid, password, service=service, node=node, requests=10, **server).run(handle)


asyncio.run(main(sys.argv[1], sys.argv[2]))
