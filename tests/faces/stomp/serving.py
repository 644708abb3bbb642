"""An instance with the face of STOMP in the process of the test, and clients that log in to it."""

import asyncio
from contextlib import asynccontextmanager

from faces.sides import Side
from faces.stomp import clients
from faces.stomp.clients import Connection, a_face
from harness.batches.facts import JOBS
from harness.batches.queue_requests import a_queue
from harness.patience import TIMEOUT

from pubqueue.model.entities import Jid, NodeName, Principal
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

NEWS, OTHER = NodeName("news"), NodeName("other")
BOSS = Principal(Jid("boss@x"), admin=True)
INDIVIDUAL = {"ack": "client-individual"}


class Served:
    """An instance, and what connects to it."""

    def __init__(self, side):
        self.side, self.face, self.broker = side, side.face, side.broker

    async def log_in(self, name="etl", version="1.2", **headers):
        connection = await Connection.to(self.face, version)
        assert (await connection.connect(name, **headers)).command == "CONNECTED"
        return connection

    async def works(self, name="bee", version="1.2", destination="/queue/jobs", **headers):
        connection = await self.log_in(name, version)
        answer = await connection.do(
            "SUBSCRIBE", destination=destination, id="s", **({"ack": "client"} | headers)
        )
        assert answer.command == "RECEIPT", answer
        return connection


@asynccontextmanager
async def serving(**given):
    side = Side(MemoryStore(Memory()), lambda broker: a_face(broker, **given))
    async with asyncio.timeout(TIMEOUT):
        await side.begin()
        await side.face.enter(lambda: None)
        for name in (JOBS, OTHER):
            await side.broker.handle(a_queue(name, publish_model="open"))
        plain = Settings({"access_model": "open", "publish_model": "open", "persist_items": True})
        await side.broker.handle(Declare(BOSS, NEWS, plain, (Jid("boss@x"),)))
        try:
            yield Served(side)
        finally:
            if not side.broker.task.done():
                await side.end()
            await clients.closed()


async def ended(connection, message):
    """See that an ERROR comes, with this message, and then the end."""
    frame = await connection.answer()
    assert (frame.command, frame.headers["message"]) == ("ERROR", message)
    assert await connection.hear() is None
    return frame


async def put(connection, *names, destination="/queue/jobs", **headers):
    for name in names:
        answer = await connection.do(
            "SEND", b"text", destination=destination, item_id=name, **headers
        )
        assert answer.command == "RECEIPT"
