"""Where the program keeps its queues; and no connection of a test is left behind it."""

import pytest
from faces.stomp import clients
from harness.stores.kept import KeptInFile, KeptInPostgres


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path):
    """A place without queues."""
    if request.param == "sqlite":
        return KeptInFile(tmp_path / "pubqueue.db")
    return KeptInPostgres(request.getfixturevalue("postgres"))


@pytest.fixture(autouse=True)
async def _all_closed():
    yield
    await clients.closed()
