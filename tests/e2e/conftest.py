"""Where the program keeps its queues: each test that asks runs on both."""

import pytest
from harness.stores.kept import KeptInFile, KeptInPostgres


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path):
    """A place without queues."""
    if request.param == "sqlite":
        return KeptInFile(tmp_path / "pubqueue.db")
    return KeptInPostgres(request.getfixturevalue("postgres"))
