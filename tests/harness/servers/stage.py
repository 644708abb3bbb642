"""A service and its accounts in one process: a stub server, and the face, broker and store behind it."""

import asyncio
from contextlib import asynccontextmanager

from harness.batches.witness import WatchedStore
from harness.servers.stub_server import StubServer

from pubqueue.accounts.credentials import Principals
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace
from pubqueue.model.entities import Jid, Millis
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite.in_memory import MemoryStore

PUBSUB = "<pubsub xmlns='http://jabber.org/protocol/pubsub{}'>{}</pubsub>"
PAYLOAD = 60_000
SERVICE = "queue.localhost"
BOSS = "boss@localhost/desk"


class Stage:
    """A server, and the face behind it; the server's `send` and `receive` act for all entities."""

    def __init__(self, server, store):
        self.server = server
        self.now = Millis(1_000_000)
        self.store = WatchedStore(store, [])
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: self.now,
        )
        self.face = XmppFace(
            self.broker,
            ServerPlace(SERVICE, server.secret, (server.host, server.port)),
            Principals(
                admins=[Jid("boss@localhost"), *(Jid(f"boss{n}@localhost") for n in range(10))],
                home="localhost",
            ),
        )

    @property
    def waiting(self):
        """The requests that wait for answers: `count`, `byte_count`, `reads`, `is_full`."""
        return self.broker.admission

    @property
    def to_many(self):
        """The waiting notices to many, queue by queue: `byte_count`, and empty or not."""
        return self.face.many.queues

    @property
    def waiting_reads(self):
        return self.face.requests.reads.waiting

    @property
    def is_clogged(self):
        """The server does not read."""
        return self.face.component.ready and not self.face.component.has_room

    @property
    def is_reading(self):
        return self.face.component.is_reading

    @property
    def pauses(self):
        """Why nothing is read."""
        return self.face.component.pauses

    @property
    def unread(self):
        """Stanzas that have arrived and are not begun."""
        return self.face.component.stanzas

    @property
    def unsent_bytes(self):
        return self.face.component.transport.get_write_buffer_size()

    def iq(self, name, inner, *, by=BOSS, part="", kind="set"):
        body = PUBSUB.format(part, inner) if inner else "<ping xmlns='urn:xmpp:ping'/>"
        return f"<iq type='{kind}' id='{name}' from='{by}' to='{SERVICE}'>{body}</iq>"

    async def ask(self, name, inner, **facts):
        await self.server.send(self.iq(name, inner, **facts))
        return (await self.answer(name)).get("type")

    async def answer(self, name):
        """Return the answer, skipping stanzas that came before it."""
        while True:
            stanza = (await self.server.receive()).tree
            if stanza.get("id") == name:
                return stanza

    def publish(self, name, node, size=PAYLOAD, by=BOSS):
        item = f"<item id='{name}'><x xmlns='x'>{'x' * size}</x></item>"
        return self.iq(name, f"<publish node='{node}'>{item}</publish>", by=by)


@asynccontextmanager
async def staged():
    async with StubServer(validate=lambda _tree: None) as server:
        store = MemoryStore()
        await store.open()
        stage = Stage(server, store)
        stage.broker.start()
        serving = asyncio.create_task(stage.face.run())
        await server.connected()
        for node in ("news", "other"):
            assert await stage.ask("make", f"<create node='{node}'/>") == "result"
        yield stage
        server.read_on()
        await stage.face.stop()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await stage.broker.stop()
        await store.close()
