"""Publish each line of the standard input as a work item: its first word is the item's id.

    XMPP_JID=etl@example.org XMPP_PASSWORD=... python examples/publisher.py queue.example.org jobs

XMPP_HOST and XMPP_PORT name the server, where DNS does not; XMPP_TLS=off is for loopback only.
"""

import asyncio
import os
import sys
from xml.etree.ElementTree import Element

from pubqueue_xeps.client import login, logout, make_client
from pubqueue_xeps.xep_0254 import queueing

env = os.environ


async def main(service: str, node: str) -> None:
    client = make_client(
        env["XMPP_JID"],
        env["XMPP_PASSWORD"],
        host=env.get("XMPP_HOST"),
        port=int(env.get("XMPP_PORT", "5222")),
        tls=env.get("XMPP_TLS", "required"),
    )
    await login(client)
    for line in sys.stdin:
        name, _, text = line.strip().partition(" ")
        payload = Element("{urn:example:job}job")
        payload.text = text
        await queueing(client).publish(service, node, payload, id=name)
        print(f"{name} is in the queue")  # and stays there until a worker has retracted it
    await logout(client)


asyncio.run(main(*sys.argv[1:]))
