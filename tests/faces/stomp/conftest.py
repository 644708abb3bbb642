"""An instance with the face of STOMP, on a store in memory."""

import pytest
from faces.stomp.serving import serving


@pytest.fixture
async def served():
    async with serving() as it:
        yield it
