"""What tests of stores share: the contract, whose failures are to be told like those of tests, and a PostgreSQL."""

import pytest
from harness.postgres import Postgres

pytest.register_assert_rewrite("stores")


@pytest.fixture(scope="session")
def running_postgres():
    with Postgres() as server:
        yield server


@pytest.fixture
def postgres(running_postgres):
    """A server with an empty store."""
    running_postgres.wipe()
    return running_postgres
