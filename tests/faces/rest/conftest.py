"""An instance that serves REST from memory, with the queue `jobs` and the topic `news`."""

import asyncio

import pytest
from faces.rest.clients import served
from harness.patience import TIMEOUT


@pytest.fixture
async def rest():
    async with asyncio.timeout(TIMEOUT), served() as one:
        await one.make("jobs", backoff_min=0)
        await one.make("news", queueing=False)
        yield one


@pytest.fixture
async def patient():
    """Time for a test that may wait."""
    async with asyncio.timeout(TIMEOUT):
        yield
