"""The bot, the service and the server are killed between any two steps of a question: it is answered once, and nobody is asked after that."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio
from harness.clients.answering import Answering
from harness.operators.at_a_terminal import Operator
from harness.patience import TIMEOUT
from harness.servers.behind import SERVICE, address_of
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component

from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.publisher.publisher import Publisher

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

NODES = """
[[node]]
name = "approvals"
queueing = true
publishers = ["etl@localhost", "bot@localhost"]
"""
SHIP = {"ask": "Ship order 17?"}
QUICK = Timings(backoff_min=0.05, backoff_max=0.5, answer=5)


def a_prosody():
    return Prosody(modules=("mam",))


def an_ejabberd():
    return Ejabberd(archive=True)


@pytest_asyncio.fixture(loop_scope="module", params=[a_prosody, an_ejabberd])
async def server(request):
    async with request.param() as started:
        for name in ("etl", "bot", "anna", "bob"):
            await started.account(name, "secret")
        yield started


class Bot:
    """`pubqueue people` as its operator runs it."""

    def __init__(self, server, *words):
        self._operator = Operator(server, "bot")
        self._words = ("people", "--node", "approvals", "--ask", "anna@localhost", *words)

    async def __aenter__(self):
        self._stack = AsyncExitStack()
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self._stack.aclose()

    async def start(self):
        self.process = await self._stack.enter_async_context(self._operator.running(*self._words))

    async def kill(self):
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def all_of_it(server, folder, *words, hesitant=False):
    (folder / "service").mkdir()
    async with (
        component(server, folder / "service", NODES) as program,
        Bot(server, *words) as bot,
        Answering(server, "anna@localhost/desk", hesitant=hesitant) as anna,
        Publisher(
            "etl@localhost", "secret", service=SERVICE, timings=QUICK, **address_of(server)
        ) as etl,
    ):
        yield {"bot": bot, "service": program, "server": server}, anna, etl


async def kill_and_start(victim):
    await victim.kill()
    await victim.start()


async def ask(etl, name):
    return (await etl.ask("approvals", SHIP, id=name, timeout=TIMEOUT)).data["choice"]


@pytest.mark.parametrize("victim", ["bot", "service", "server"])
async def test_a_kill_before_the_answer_is_survived_and_the_question_is_not_asked_again(
    server, tmp_path, victim
):
    async with all_of_it(server, tmp_path, hesitant=True) as (victims, anna, etl):
        waiting = asyncio.create_task(ask(etl, "k1"))
        await anna.was_asked()
        await kill_and_start(victims[victim])
        anna.answer()
        assert await waiting == "approve"
        assert await ask(etl, "k2") == "approve"  # so all about the first has been said
        assert len(anna.asked) == 2
        assert anna.again == []


@pytest.mark.parametrize("victim", ["bot", "service", "server"])
async def test_a_kill_right_after_the_answer_loses_it_not(server, tmp_path, victim):
    async with all_of_it(server, tmp_path, hesitant=True) as (victims, anna, etl):
        waiting = asyncio.create_task(ask(etl, "k1"))
        await anna.was_asked()
        anna.answer()
        await kill_and_start(victims[victim])
        assert await waiting == "approve"
        assert await ask(etl, "k2") == "approve"
        assert anna.again == []


async def test_an_answer_that_is_given_while_no_bot_is_there_counts(server, tmp_path):
    """The server keeps it, or its archive has it; the question is not sent again first."""
    async with all_of_it(server, tmp_path, hesitant=True) as (victims, anna, etl):
        waiting = asyncio.create_task(ask(etl, "k1"))
        await anna.was_asked()
        await victims["bot"].kill()
        anna.answer()
        await anna.is_read()
        await victims["bot"].start()
        assert await waiting == "approve"
        assert await ask(etl, "k2") == "approve"
        assert set(anna.asked.values()) == {1}
