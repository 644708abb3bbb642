"""Descriptors run out: who is already there is served, who comes is turned away, and who comes later is served again."""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from faces.listener.echoing import HOST, Client
from harness.patience import TIMEOUT

PROGRAM = Path(__file__).with_name("few_descriptors.py")
LIMIT = 200
RESERVE = 64


@asynccontextmanager
async def listening(loop):
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, PROGRAM, loop), stdin=-1, stdout=-1, stderr=asyncio.subprocess.DEVNULL
    )

    async def tell(word):
        program.stdin.write(word.encode())
        return await program.stdout.readline()

    clients = []

    async def client():
        clients.append(Client(*await asyncio.open_connection(HOST, port)))
        return clients[-1]

    try:
        async with asyncio.timeout(TIMEOUT):
            port = int(await program.stdout.readline())
            yield client, tell
    finally:
        for one in clients:
            one.writer.transport.abort()
        program.stdin.close()
        assert await program.wait() == 0


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_without_free_descriptors_open_connections_are_served_and_accepting_goes_on(loop):
    async with listening(loop) as (client, tell):
        there = await client()
        assert await there.ask("a") == "a"
        assert await tell("take") == b"done\n"
        for _ in range(20):
            assert await (await client()).line() == "", "turned away, and not left waiting"
        assert await there.ask("b") == "b"
        assert await tell("free") == b"done\n"
        assert await (await client()).ask("c") == "c"


async def test_the_last_descriptors_are_not_for_clients():
    async with listening("uvloop") as (client, _):
        clients = [await client() for _ in range(LIMIT)]
        served = [one for one in clients if await one.ask("a") == "a"]
        assert 0 < len(served) <= LIMIT - RESERVE
        assert await served[0].ask("b") == "b"
