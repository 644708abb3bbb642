"""The contract of faces, of the XMPP face: two instances behind a server each, and a network that connects the servers."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from xml.sax.saxutils import quoteattr

import pytest
from faces.contract import ConditionContract, FaceContract, make_store, sides
from harness.clients.crowd import JOB, OPTIONS, PUBSUB
from harness.servers.stub_server import StubServer
from harness.servers.users import SERVICE

from pubqueue.accounts.credentials import Principals
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace
from pubqueue.faces.xmpp.xml.refusals import words
from pubqueue_xeps.wire.waits import read_wait

__all__ = ["make_store", "sides"]


def vars_of(one):
    """Return a signal as the JSON of other protocols has it."""
    return {"name": one.name, "id": one.id, "data": one.text, "by": one.by}


class XmppClient:
    """A client of one of the servers; what either instance sends to its JID comes to it."""

    def __init__(self, server, jid):
        self._server, self.address = server, jid
        self.waits = {}
        self._numbers = itertools.count(1)
        self._answers = asyncio.Queue()
        self._delivered = asyncio.Queue()

    def take(self, stanza):
        if stanza.tag.endswith("}iq"):
            error = stanza.find("{*}error")
            self._answers.put_nowait("" if error is None else error[0].tag.partition("}")[2])
        for item in stanza.iterfind(f"{{{PUBSUB}#event}}event/{{*}}items/{{*}}item"):
            waited = read_wait(stanza)
            if waited.woken is not None or waited.signals:
                came = [vars_of(one) for one in waited.signals]
                self.waits[item.get("id")] = waited.woken, {"carry": waited.carry, "signals": came}
            self._delivered.put_nowait(item.get("id"))

    async def ask(self, inner):
        head = f"<iq type='set' id='c{next(self._numbers)}' from='{self.address}' to='{SERVICE}'>"
        await self._server.send(f"{head}<pubsub xmlns='{PUBSUB}'>{inner}</pubsub></iq>")
        return await self._answers.get()

    async def publish(self, node, item):
        inner = f"<item id={quoteattr(item)}>{JOB}</item>"
        return await self.ask(f"<publish node={quoteattr(node)}>{inner}</publish>")

    async def subscribe(self, node, window):
        presence = f"<presence from='{self.address}' to='{SERVICE}'/>"
        await self._server.send(presence)
        inner = f"<subscribe node={quoteattr(node)} jid='{self.address}'/>"
        return await self.ask(inner + OPTIONS.format(window))

    async def retract(self, node, item):
        inner = f"<item id={quoteattr(item)}/>"
        return await self.ask(f"<retract node={quoteattr(node)}>{inner}</retract>")

    async def item(self):
        return await self._delivered.get()

    def items(self):
        return [self._delivered.get_nowait() for _ in range(self._delivered.qsize())]

    async def leave(self):
        head = f"<presence type='unavailable' from='{self.address}'"
        await self._server.send(f"{head} to='{SERVICE}'/>")


class Network:
    """Two servers with what is between them."""

    def __init__(self, servers):
        self._servers = servers
        self._clients = {}
        self._count = itertools.count(1)
        self.principals = Principals(admins=[], home="localhost")
        for server in servers:
            server.on_stanza = self._take

    def _take(self, stanza):
        if client := self._clients.get(stanza.tree.get("to")):
            client.take(stanza.tree)

    async def connect(self, side, name):
        server = self._servers[side.broker.instance.number]
        await server.connected()
        jid = f"{name}@localhost/{next(self._count)}"
        client = self._clients[jid] = XmppClient(server, jid)
        return client

    def face_of(self, broker):
        server = self._servers[broker.instance.number]
        return XmppFace(
            broker,
            ServerPlace(SERVICE, server.secret, (server.host, server.port)),
            self.principals,
        )


@pytest.fixture
async def network():
    async with AsyncExitStack() as servers:
        yield Network([await servers.enter_async_context(StubServer()) for _ in range(2)])


class TestXmpp(ConditionContract, FaceContract):
    @pytest.fixture
    def rivals(self):
        async def create(clients, number):
            wanted = f"<create node='made{number}'/>"
            return await asyncio.gather(*(client.ask(wanted) for client in clients))

        return create

    @pytest.fixture
    def words_for(self):
        return words

    @pytest.fixture
    def principals(self, network):
        return [network.principals]

    @pytest.fixture
    def face_of(self, network):
        return network.face_of

    @pytest.fixture
    def connected(self, network):
        return network.connect
