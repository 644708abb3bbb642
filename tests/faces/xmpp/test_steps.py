"""How many steps an item's life takes the service: published, handed out, retracted by its worker.

They are counted over lives that share their batches as on a busy day.
"""

import asyncio
import re
from contextlib import AsyncExitStack

import pytest
from harness.patience import TIMEOUT
from harness.servers.stub_server import ROOT
from harness.stanzas.wire import SERVICE, Wire
from harness.steps import counted_steps

from pubqueue.accounts.credentials import Principals
from pubqueue.engine import batch_size
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Payloads, Terms
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace
from pubqueue.faces.xmpp.stream import component
from pubqueue.faces.xmpp.xml.payload import same
from pubqueue.model.entities import Jid, Millis
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite import SqliteStore

MAX_CALLS = 264
"""Steps of a life. Lower it with what you save; what needs more has to say why in its commit."""

WINDOW, ROUNDS, WORKERS = 128, 4, 4
PUBSUB = "http://jabber.org/protocol/pubsub"
BOSS = "boss@localhost/desk"
PAYLOAD = f"<work xmlns='urn:example:work'><note>{'x' * 120}</note></work>"
RESULT = b'<iq type="result"'
DELIVERED = re.compile(rb' to="([^"]*)" id="pq-[^<]*<event [^>]*><items [^>]*><item id="([^"]*)"')


@pytest.fixture
def steps():
    with counted_steps() as counted:
        yield counted


class Service:
    """The face with its broker and a store in a file, on a connection that is two lists of bytes."""

    def __init__(self, broker, face, wire):
        self.broker, self._component, self._wire = broker, face.component, wire

    async def say(self, stanzas):
        """Hand over the stanzas in one piece; return what is said until all is quiet."""
        self._component.data_received("".join(stanzas).encode())
        await self.broker.settled()
        self._component.flush()
        said = bytes(self._wire.said)
        self._wire.said.clear()
        return said


@pytest.fixture
async def service(steps, tmp_path, monkeypatch):
    # counted, not timed: a piece is read in one turn, and a slow batch makes the next one no smaller
    monkeypatch.setattr(component, "TURN", 3600)
    monkeypatch.setattr(batch_size, "LONG", 3600)
    async with AsyncExitStack() as stack:
        store = SqliteStore(tmp_path / "queue.db")
        await store.open()
        stack.push_async_callback(store.close)
        broker = Broker(
            store,
            Terms(CreationPolicy.LOCAL),
            clock=lambda: Millis(1_000_000_000_000),
            payloads=Payloads(same),
        )
        broker.start()
        stack.push_async_callback(broker.stop)
        principals = Principals(admins=[Jid("boss@localhost")], home="localhost")
        face = XmppFace(broker, ServerPlace(SERVICE, "", ("127.0.0.1", 1)), principals)
        filters = asyncio.create_task(face.component.run_filters())
        stack.callback(filters.cancel)
        wire = Wire()
        face.component.connection_made(wire)
        up = asyncio.Event()
        face.component.add_event_handler("session_start", lambda _: up.set())
        greeting = f"<?xml version='1.0'?>{ROOT[:-1]} from='{SERVICE}' id='1'><handshake/>"
        face.component.data_received(greeting.encode())
        async with asyncio.timeout(TIMEOUT):
            await up.wait()
        yield Service(broker, face, wire)


def iq(number, sender, inner, space=PUBSUB):
    return (
        f"<iq type='set' id='{number}' from='{sender}' to='{SERVICE}'>"
        f"<pubsub xmlns='{space}'>{inner}</pubsub></iq>"
    )


def form(kind, fields):
    each = "".join(f"<field var='{var}'><value>{value}</value></field>" for var, value in fields)
    kept = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#{kind}</value></field>"
    return f"<x xmlns='jabber:x:data' type='submit'>{kept}{each}</x>"


async def prepare(service):
    """Make a queue with two publishers, and workers that wait for items."""
    workers = [f"worker{number}@localhost/bot" for number in range(WORKERS)]
    enabled = form("node_config", [("x-queueing#enabled", 1)])
    people = [(f"publisher{n}@localhost", "publisher") for n in range(2)]
    people += [(jid.partition("/")[0], "member") for jid in workers]
    each = "".join(f"<affiliation jid='{jid}' affiliation='{what}'/>" for jid, what in people)
    window = form("subscribe_options", [("pubsub#queue_requests", WINDOW // WORKERS)])
    said = await service.say(
        [
            iq("c", BOSS, f"<create node='jobs'/><configure>{enabled}</configure>"),
            iq("a", BOSS, f"<affiliations node='jobs'>{each}</affiliations>", f"{PUBSUB}#owner"),
            *(
                iq("s", jid, f"<subscribe node='jobs' jid='{jid}'/><options>{window}</options>")
                for jid in workers
            ),
            *(f"<presence from='{jid}' to='{SERVICE}'/>" for jid in workers),
        ]
    )
    assert said.count(RESULT) == 2 + WORKERS


async def live(service, turn):
    """Take as many items as there is room for from publish to retract."""
    briefly = "xmlns:q='urn:x-pubqueue:0' q:answer='short'"
    said = await service.say(
        iq(
            f"p{n}",
            f"publisher{n % 2}@localhost/etl",
            f"<publish node='jobs' {briefly}><item id='i{turn}-{n}'>{PAYLOAD}</item></publish>",
        )
        for n in range(WINDOW)
    )
    delivered = [(to.decode(), item.decode()) for to, item in DELIVERED.findall(said)]
    assert len(delivered) == WINDOW == said.count(RESULT)
    said = await service.say(
        iq(f"r{n}", to, f"<retract node='jobs'><item id='{item}'/></retract>")
        for n, (to, item) in enumerate(delivered)
    )
    assert said.count(b"<retract id=") == WINDOW == said.count(RESULT)


async def test_the_steps_of_a_life_are_bounded(service, steps):
    await prepare(service)
    await live(service, 0)  # what is remembered between batches is remembered from here on
    steps.counts = True
    for turn in range(1, ROUNDS + 1):
        await live(service, turn)
    steps.counts = False
    lives = ROUNDS * WINDOW
    each = steps.by.total() / lives
    dearest = [f"{n / lives:6.2f} {what}" for what, n in steps.by.most_common(80)]
    assert each <= MAX_CALLS, "\n".join(dearest)
