"""SIGTERM while requests pour in: the service ends, and whatever was committed has been answered."""

import asyncio
from contextlib import suppress

from harness.patience import TIMEOUT
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

from pubqueue.engine.listings import ItemIds
from pubqueue.model.entities import NodeName
from pubqueue.stores.sqlite import SqliteStore

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
"""
PUBLISH = (
    "<iq type='set' id='{0}' from='etl@localhost/x' to='queue.localhost'>"
    "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='jobs'>"
    "<item id='{0}'><job xmlns='x'>work</job></item></publish></pubsub></iq>"
)
AT_ONCE, BEFORE, WINDOW = 200, 400, 4000


class Flood:
    """Publishes without end, thousands at once, and notes what was answered."""

    def __init__(self, server):
        self._server = server
        self.sent = self.answered = 0
        self._room = asyncio.Event()
        self.confirmed = set()
        self.flowing = asyncio.Event()
        server.on_stanza = self._hear

    def _hear(self, stanza):
        assert stanza.tree.get("type") in {"result", "error"}
        self.answered += 1
        self._room.set()
        if stanza.tree.get("type") == "result":
            self.confirmed.add(stanza.tree.get("id"))
        if len(self.confirmed) >= BEFORE:
            self.flowing.set()

    async def run(self):
        with suppress(ConnectionError, AssertionError):  # the stream has ended
            while True:
                while self.sent - self.answered > WINDOW:
                    self._room.clear()
                    await self._room.wait()
                numbers = range(self.sent, self.sent + AT_ONCE)
                self.sent += AT_ONCE
                await self._server.send("".join(PUBLISH.format(f"i{n}") for n in numbers))


async def stored(path):
    store = SqliteStore(path)
    await store.open()
    try:
        return set(await store.read(lambda tx: tx.page(ItemIds(NodeName("jobs")), None, 10**9)))
    finally:
        await store.close()


async def test_a_service_that_is_ended_under_load_has_answered_all_that_it_has_done(tmp_path):
    async with (
        StubServer(secret="a secret", validate=lambda _: None) as server,
        Program(write_config(tmp_path, server, NODE)) as program,
    ):
        flood = Flood(server)
        running = asyncio.create_task(flood.run())
        async with asyncio.timeout(TIMEOUT):
            await flood.flowing.wait()
        await program.stop()
        await server.drop()
        running.cancel()
    kept = await stored(tmp_path / "pubqueue.db")
    assert BEFORE <= len(kept) < flood.sent
    assert kept == flood.confirmed
