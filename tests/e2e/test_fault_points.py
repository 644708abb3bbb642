"""The component is killed between any two steps of a batch. What it had confirmed is there, nothing that was
done comes back, and everything gets done, on both stores."""

from __future__ import annotations

import asyncio
import signal
import sys
import xml.etree.ElementTree as ET
from contextlib import asynccontextmanager, suppress

import pytest
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.killed_lives import killed_lives
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer
from harness.stores.replay import WAITS

ITEMS = [f"i{number}" for number in range(40)]
SERVICE = "queue.localhost"
PUBSUB = "http://jabber.org/protocol/pubsub"
ETL, BEE = "etl@localhost/x", "bee@localhost/x"
NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["ant@localhost", "bee@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#dedup_window" = 3600
"x-queueing#event_log" = true
"""
SUBSCRIBE = f"""<subscribe node='jobs' jid='{BEE}'/><options><x xmlns='jabber:x:data' type='submit'>
    <field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#subscribe_options</value></field>
    <field var='pubsub#queue_requests'><value>3</value></field></x></options>"""

JOB = "<publish node='jobs'><item id='i1'><job xmlns='urn:example:work'/></item></publish>"


class Trade:
    """A publisher with two items on the way, and a worker: what they asked, and what was confirmed."""

    def __init__(self, server):
        self._server = server
        self.published, self.retracted = set(), set()
        self.asked = set()
        self.done = asyncio.Event()

    async def begin(self):
        """Ask again what was not answered; the worker then joins as a new session, which frees the rest."""
        for item in sorted(self.asked - self.retracted):
            await self.retract(item)
        await self._say(f"<presence type='unavailable' from='{BEE}' to='{SERVICE}'/>")
        await self.ask(BEE, "subscribe", SUBSCRIBE)
        await self._say(f"<presence from='{BEE}' to='{SERVICE}'/>")
        self._to_publish = iter([item for item in ITEMS if item not in self.published])
        for _ in range(2):
            await self._publish_next()

    async def listen(self):
        """Go on with what comes in, for ever."""
        while True:
            stanza = (await self._server.receive()).tree
            if stanza.get("type") in {"result", "error"} and self._counts(stanza):
                await self._take_answer(*stanza.get("id").split())
            for item in stanza.iterfind(f".//{{{PUBSUB}#event}}item"):
                self.asked.add(item.get("id"))
                await self.retract(item.get("id"))

    def _counts(self, answer):
        """A retract that is asked again may find that the first one was carried out.

        A delivery that was read only after the worker had joined anew belongs to a lock that is gone:
        the item comes again, or is here already.
        """
        if answer.get("type") == "result":
            return True
        assert answer.get("id").startswith("retracted")
        if answer.find(".//{*}unexpected-request") is not None:
            return False
        assert answer.find(".//{*}item-not-found") is not None, ET.tostring(answer)
        return True

    async def _take_answer(self, what, item=None):
        if what == "published":
            self.published.add(item)
            await self._publish_next()
        elif what == "retracted":
            self.retracted.add(item)
        if self.published == self.retracted == set(ITEMS):
            self.done.set()

    async def _publish_next(self):
        for item in self._to_publish:
            job = f"<job xmlns='urn:example:work'>{item}</job>"
            publish = f"<publish node='jobs'><item id='{item}'>{job}</item></publish>"
            await self.ask(ETL, f"published {item}", publish)
            return

    async def retract(self, item):
        retract = f"<retract node='jobs'><item id='{item}'/></retract>"
        await self.ask(BEE, f"retracted {item}", retract)

    async def ask(self, who, name, child):
        await self._say(
            f"<iq type='set' from='{who}' to='{SERVICE}' id='{name}'>"
            f"<pubsub xmlns='{PUBSUB}'>{child}</pubsub></iq>"
        )

    async def _say(self, text):
        with suppress(ConnectionError):
            if self._server.up:
                await self._server.send(text)

    def lost(self, found):
        """Return what should be in the store and is not."""
        return self.published - self.asked - found.keys()

    def came_back(self, found):
        return self.retracted & found.keys()


def reported(found):
    """Return the states as the event log knows them: that no event precedes its commit, or misses it."""
    return {name: "locked" if state == "locked" else WAITS for name, state in found.items()}


@asynccontextmanager
async def trading(kind=Trade):
    """Serve a trade of that kind; what goes wrong while it listens ends the test at once."""
    async with StubServer(secret="a secret") as server, asyncio.TaskGroup() as group:
        trade = kind(server)
        listening = group.create_task(trade.listen())
        yield server, trade
        listening.cancel()


@pytest.mark.parametrize("point", doomed.POINTS)
async def test_killed_there_it_loses_nothing(point, tmp_path, kept):
    async with trading() as (server, trade):
        config = write_config(tmp_path, server, NODE, store=kept.address)
        async for _ in killed_lives(config, server, point, (4, 11), trade.begin):
            killed = kept.recount()
            assert killed.wrong == ()
            assert trade.lost(killed.of("jobs")) == set()
            assert trade.came_back(killed.of("jobs")) == set()
            assert await kept.replayed() == reported(killed.of("jobs"))

        async with Program(config):
            await server.reconnected(2)
            await trade.begin()
            await asyncio.wait_for(trade.done.wait(), TIMEOUT)
    ended = kept.recount()
    assert (ended.items, ended.wrong) == ({}, ())


@pytest.mark.covers("Q-055")
@pytest.mark.parametrize("point", ["committed", "answered", "delivered"])
async def test_killed_between_commit_and_send_it_sends_again_under_the_same_token(
    point, tmp_path, kept
):
    """Whether the item's holder got it nobody knows: it gets it again, and nobody else does."""
    async with StubServer(secret="a secret") as server:
        node = NODE + '"x-queueing#lock_timeout" = 36000\n'
        config = write_config(tmp_path, server, node, store=kept.address)
        doom = (sys.executable, "-I", doomed.__file__, point, "1")
        program = Program(config, doom)
        await program.start()
        trade = Trade(server)
        await server.reconnected(0)
        await trade.ask(BEE, "subscribe", SUBSCRIBE)
        await trade.ask(ETL, "published i1", JOB)
        assert await program.ended() == -signal.SIGKILL
        (locked,) = kept.locks()
        assert locked[:3] == ("i1", "locked", BEE)

        async with Program(config):
            await server.reconnected(1)
            await trade.ask(
                "ant@localhost/x", "subscribe", SUBSCRIBE.replace(BEE, "ant@localhost/x")
            )
            for _ in range(2 if point == "delivered" else 1):
                assert await delivery(server) == (BEE, "i1", str(locked[3]), "1")
            await trade.ask(ETL, "published i2", JOB.replace("i1", "i2"))
            assert (await delivery(server))[:2] == ("ant@localhost/x", "i2")
            await trade.retract("i1")
            await arrived(server, "retracted i1")
    assert [row[0] for row in kept.locks()] == ["i2"]


async def delivery(server):
    """Return the next delivery: to whom, which item, under which token, at which attempt."""
    while True:
        stanza = (await server.receive()).tree
        lock = stanza.find("{urn:x-pubqueue:0}lock")
        for item in stanza.iterfind(f".//{{{PUBSUB}#event}}item"):
            return stanza.get("to"), item.get("id"), lock.get("token"), lock.get("attempt")


async def arrived(server, name):
    while (await server.receive()).tree.get("id") != name:
        pass
