"""A service with its page, and a browser."""

import pytest
from harness.browser import chromium
from harness.shown import shown


@pytest.fixture
async def service():
    async with shown() as found:
        yield found


@pytest.fixture
async def browser():
    async with chromium() as found:
        yield found
