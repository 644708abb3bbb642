"""The service is killed between any two steps of a carried message: a sender that repeats its steps has each item once, on both stores."""

import asyncio
import signal
import sys
from contextlib import suppress

import pytest
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.program import PUBQUEUE, Program, write_config
from harness.servers.stub_server import StubServer

SENDER, SERVICE, QOS = "etl@localhost/x", "queue.localhost", "urn:xmpp:qos"
NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
"""
MESSAGES = 6
ENDS = 5, 6
"""The batch that keeps a message, and the one that delivers it."""


class Sender:
    """Sends messages one after the other, and repeats the step that has no answer."""

    def __init__(self, server, level):
        self._server, self._level = server, level
        self._done: set[str] = set()

    async def run(self):
        """Go on until all is answered."""
        for number in range(MESSAGES):
            await self._step(f"s{number}", self._first(number))
            if self._level == "assured":
                await self._step(f"d{number}", f"<deliver xmlns='{QOS}' msgId='m{number}'/>")

    def _first(self, number):
        words = f" msgId='m{number}'" if self._level == "assured" else ""
        item = (
            f" id='i{number}'" if self._level == "acknowledged" else ""
        )  # its repetition is the same item
        work = f"<item{item}><work xmlns='urn:example:work' nr='{number}'/></item>"
        publish = f"<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='jobs'>{work}</publish></pubsub>"
        return f"<{self._level} xmlns='{QOS}'{words}><message xmlns='jabber:client'>{publish}</message></{self._level}>"

    async def _step(self, name, inner):
        if name in self._done:
            return
        await self._server.send(
            f"<iq type='set' id='{name}' from='{SENDER}' to='{SERVICE}'>{inner}</iq>"
        )
        while (answer := (await self._server.receive()).tree).get("id") != name:
            pass
        assert answer.get("type") == "result", answer
        self._done.add(name)


@pytest.mark.covers("QS-024", "QS-031")
@pytest.mark.parametrize("passage", ENDS)
@pytest.mark.parametrize(
    "point", ["begun", "decided", "applied", "written", "committed", "answering"]
)
@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_each_item_is_there_once(level, point, passage, tmp_path, kept):
    async with StubServer(validate=lambda _tree: None) as server, asyncio.timeout(TIMEOUT):
        config = write_config(tmp_path, server, NODE, store=kept.address)
        sender = Sender(server, level)
        doom = sys.executable, "-I", doomed.__file__, point, str(passage)
        program = Program(config, doom)
        await program.start()
        sending = asyncio.create_task(sender.run())
        assert await program.ended() == -signal.SIGKILL
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        program.command = (PUBQUEUE,)
        async with program:
            await sender.run()
        found = kept.recount()
        assert found.wrong == ()
        assert len(found.of("jobs")) == MESSAGES
