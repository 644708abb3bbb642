"""No connection of a test is left behind it."""

import pytest
from faces.stomp import clients


@pytest.fixture(autouse=True)
async def _all_closed():
    yield
    await clients.closed()
