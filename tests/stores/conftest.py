"""The server of the tests that need PostgreSQL."""

import pytest
from harness.postgres import Postgres


@pytest.fixture(scope="session")
def running_postgres():
    with Postgres() as server:
        yield server


@pytest.fixture
def postgres(running_postgres):
    """A server with an empty store."""
    running_postgres.wipe()
    return running_postgres
