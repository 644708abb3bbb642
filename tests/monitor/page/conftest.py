"""A service with its page, and a browser."""

import pytest
from harness.operators.browser import chromium
from harness.operators.page_service import shown


@pytest.fixture
async def service():
    async with shown() as found:
        yield found


@pytest.fixture
async def browser():
    async with chromium() as found:
        yield found
