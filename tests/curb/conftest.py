"""No connection of a test is left behind it."""

import pytest
from curb.curbs import OPEN


@pytest.fixture(autouse=True)
async def _lines_are_closed():
    yield
    while OPEN:
        await OPEN.pop().close()
