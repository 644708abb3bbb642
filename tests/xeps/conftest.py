import pytest_asyncio

from pubqueue.demo.prosody import Prosody


@pytest_asyncio.fixture(loop_scope="function")
async def prosody():
    async with Prosody() as server:
        await server.account("bot", "secret")
        yield server
