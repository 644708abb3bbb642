"""The component is killed between any two pages of a crowd that is told the end of its node, or shut out of it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager, suppress

import pytest
from harness.patience import LOOK, TIMEOUT, until
from harness.processes.killed_lives import killed_itself, start_doomed
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

SERVICE, BOSS = "queue.localhost", "boss@localhost/desk"
PUBSUB = "http://jabber.org/protocol/pubsub"
CROWD = [f"reader{number}@localhost/x" for number in range(6)]
CLOSE = (
    "<configure node='news'><x xmlns='jabber:x:data' type='submit'>"
    f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#node_config</value></field>"
    "<field var='pubsub#access_model'><value>whitelist</value></field></x></configure>"
)
PASSAGES = (2, 3)
"""Two lives end in a batch with a page; the third comes to the end."""


class People:
    """Ask one after the other, and note who hears of the end of the node."""

    def __init__(self, server):
        self._server = server
        self.reported = {}
        self.heard = asyncio.Event()

    async def ask(self, by, inner, part=""):
        await self.say(by, inner, part)
        while (stanza := await self._next()).get("id") != by:
            pass
        assert stanza.get("type") == "result"

    async def say(self, by, inner, part=""):
        body = f"<pubsub xmlns='{PUBSUB}{part}'>{inner}</pubsub>"
        head = f"<iq type='set' id='{by}' from='{by}' to='{SERVICE}'>"
        await self._server.send(f"{head}{body}</iq>")

    @asynccontextmanager
    async def listening(self):
        """Note meanwhile what comes."""
        listening = asyncio.create_task(self._listen())
        yield
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self):
        with suppress(ConnectionError):
            while True:
                await self._next()

    async def _next(self):
        stanza = (await self._server.receive()).tree
        if stanza.tag.endswith("message"):
            to = stanza.get("to")
            self.reported[to] = self.reported.get(to, 0) + 1
            if len(self.reported) == len(CROWD):
                self.heard.set()
        return stanza


def left(store):
    """Return who is left of the crowd, and of what is to be done about it."""
    connection = sqlite3.connect(store)
    tables = ("subscription", "affiliation", "former_node", "review")
    counts = [connection.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in tables]
    connection.close()
    return counts


async def gone(store, expected):
    """Wait until so much is left."""
    await until(lambda: left(store) == expected, every=LOOK)


async def lives(tmp_path, server, point, last_words):
    """Let one life after the other begin, the first two of them to end at that point."""
    people = People(server)
    service = Program(write_config(tmp_path, server))
    for life, passage in enumerate(PASSAGES):
        first = "" if life else "ready"  # a later life may end before it is ready
        await start_doomed(service, point, passage, first)
        await server.reconnected(life)
        if not life:
            await people.ask(BOSS, "<create node='news'/>")
            for jid in CROWD:
                await people.ask(jid, f"<subscribe node='news' jid='{jid}'/>")
            await people.say(BOSS, last_words, "#owner")
        async with people.listening():
            await killed_itself(service)
    return people, service


@pytest.mark.parametrize("point", ["begun@NotifyFormer", "committed@NotifyFormer"])
async def test_killed_between_two_pages_all_are_notified_of_the_end_of_their_node(point, tmp_path):
    store = tmp_path / "pubqueue.db"
    async with StubServer(secret="a secret") as server:
        people, service = await lives(tmp_path, server, point, "<delete node='news'/>")
        assert left(store)[2] == 1
        assert 0 < left(store)[0] < len(CROWD)
        async with service, people.listening():
            await asyncio.wait_for(people.heard.wait(), TIMEOUT)
            await gone(store, [0, 0, 0, 0])
    assert people.reported.keys() == set(CROWD)


async def test_killed_between_two_pages_all_excluded_subscribers_go(tmp_path):
    store = tmp_path / "pubqueue.db"
    async with StubServer(secret="a secret") as server:
        _, service = await lives(tmp_path, server, "begun@ReviewSubscribers", CLOSE)
        assert left(store)[3] == 1
        assert 0 < left(store)[0] < len(CROWD)
        async with service:
            await gone(store, [0, 1, 0, 0])
