"""Publish all lines of the standard input, or none: each line is an item of work.

    XMPP_JID=etl@example.org XMPP_PASSWORD=... python examples/batch_publisher.py queue.example.org jobs 20261121

The number rises with each run, a date for example. A run that died, or of which nobody knows how it ended, is
repeated with its number: what it had committed is not published again. Lines are numbered, so ids stay the same.
"""

import asyncio
import os
import sys
from xml.etree.ElementTree import Element

from pubqueue_xeps.batch import Batch
from pubqueue_xeps.client import login, logout, make_client


async def main(service: str, node: str, version: str) -> None:
    env = os.environ
    client = make_client(
        env["XMPP_JID"],
        env["XMPP_PASSWORD"],
        host=env.get("XMPP_HOST"),
        port=int(env.get("XMPP_PORT", "5222")),
        tls=env.get("XMPP_TLS", "required"),
    )
    await login(client)
    async with Batch(client, service, app="batch-publisher", version=int(version)) as batch:
        for line in sys.stdin:
            payload = Element("{urn:example:job}job")
            payload.text = line.strip()
            await batch.publish(node, payload)
    print("was there already" if batch.committed.already else f"{batch.committed.published} new")
    await logout(client)


asyncio.run(main(*sys.argv[1:]))
