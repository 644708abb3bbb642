"""The component is killed between any two steps of a batch that stages, commits or aborts. The publisher repeats what
was not answered; in the end every version is there once, and of what was dropped nothing, on both stores."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.killed_lives import killed_lives
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

SERVICE, ETL = "queue.localhost", "etl@localhost/x"
PUBSUB = "http://jabber.org/protocol/pubsub"
NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
"""
VERSIONS, PARTS, ITEMS = 5, 2, 4
PASSAGES = {"dispatched": (1, 2, 1)}
"""The 10th batch commits the first version; then it is killed at the abort, and at the next commit. Nothing but a commit
hands out."""


def stage(version, part, attempt, item):
    name = f"{version}-{part}-{item}"
    job = f"<job xmlns='urn:example:work'>{attempt}</job>"
    return (
        f"<pubsub xmlns='{PUBSUB}'><publish node='jobs'><item id='{name}'>{job}</item></publish>"
        f"<txn xmlns='urn:x-pubqueue:0' app='a' version='{version}' part='{part}' attempt='{attempt}'/>"
        "</pubsub>"
    )


def script():
    """Return all that the publisher has to say: for each version a losing attempt, the winners, the commit.

    The second version is aborted, with all its attempts, and begun anew.
    """
    said = []
    for version in range(VERSIONS):
        said.append(stage(version, 0, 7, "lost"))
        if version == 1:
            said.append(f"<abort xmlns='urn:x-pubqueue:0' app='a' version='{version}'/>")
        said += [stage(version, p, 8, i) for p in range(PARTS) for i in range(ITEMS)]
        parts = " ".join(f"{part}:8:{ITEMS}:0" for part in range(PARTS))
        said.append(
            f"<commit xmlns='urn:x-pubqueue:0' app='a' version='{version}'><parts>{parts}</parts></commit>"
        )
    return said


class Publisher:
    """Says one thing after the other, each again until it is answered."""

    def __init__(self, server):
        self._server = server
        self._said = script()
        self.at = 0
        self.committed = 0
        self.done = asyncio.Event()

    async def say(self):
        if self.at == len(self._said):
            self.done.set()
            return
        head = f"<iq type='set' from='{ETL}' to='{SERVICE}' id='n{self.at}'>"
        with suppress(ConnectionError):
            if self._server.up:
                await self._server.send(f"{head}{self._said[self.at]}</iq>")

    async def listen(self):
        while True:
            answer = (await self._server.receive()).tree
            if answer.get("id") != f"n{self.at}":
                continue  # of one that was said twice
            assert answer.get("type") == "result", self._said[self.at]
            self.committed += self._said[self.at].startswith("<commit")
            self.at += 1
            await self.say()


def expected(versions):
    return {f"{v}-{p}-{i}" for v in range(versions) for p in range(PARTS) for i in range(ITEMS)}


async def killed_lives_of(publisher, server, folder, kept, lives):
    """Kill the service at these points and passages, life after life, and yield what is in the queue after each; then let it end."""
    listening = asyncio.create_task(publisher.listen())
    service = Program(write_config(folder, server, NODE, store=kept.address))

    async def live():
        await server.connected()
        await publisher.say()

    async for _ in killed_lives(service, lives, live):
        await kept.abandoned()
        killed = kept.recount()
        assert killed.wrong == ()
        yield killed.of("jobs").keys()
    async with service:
        await live()
        await asyncio.wait_for(publisher.done.wait(), TIMEOUT)
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening
    ended = kept.recount()
    assert ended.wrong == ()
    assert ended.of("jobs").keys() == expected(VERSIONS)


@pytest.mark.parametrize("point", [p for p in doomed.POINTS if p not in {"answered", "delivered"}])
async def test_killed_there_every_version_is_there_once(point, tmp_path, kept):
    async with StubServer(secret="a secret") as server:
        publisher = Publisher(server)
        lives = [(point, passage) for passage in PASSAGES.get(point, (10, 2, 9))]
        async for found in killed_lives_of(publisher, server, tmp_path, kept, lives):
            assert found in (expected(publisher.committed), expected(publisher.committed + 1))


SLICES = {
    "begun@LookAtWinners": (1, 3, 5),
    "begun@MoveWinners": (1, 12, 10),
    "committed@MoveWinners": (1, 12, 10),
}
"""Up to nine slices are what the life before has left to be moved; then it is killed in the next commit."""


@pytest.mark.parametrize("point", SLICES)
async def test_killed_between_slices_of_a_commit_every_winner_is_there_once(point, tmp_path, kept):
    """It is killed in ever later slices; what was marked committed is moved by the next life."""
    async with StubServer(secret="a secret") as server:
        publisher = Publisher(server)
        lives = [(point, passage) for passage in SLICES[point]]
        async for found in killed_lives_of(publisher, server, tmp_path, kept, lives):
            assert found <= expected(publisher.committed + 1)
