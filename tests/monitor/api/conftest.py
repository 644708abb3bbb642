"""A service with its operations over HTTP, and callers of them."""

import aiohttp
import pytest
from harness.operators.api_caller import USERS, Caller
from harness.operators.page_service import shown
from harness.patience import TIMEOUT


@pytest.fixture
async def service():
    async with shown(users=USERS) as found:
        yield found


@pytest.fixture
async def api(service):
    timeout = aiohttp.ClientTimeout(TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield Caller(service.place, session)
