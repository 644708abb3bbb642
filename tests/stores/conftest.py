"""The server of the tests that need PostgreSQL; and the parts of the contract, whose asserts say what they saw."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
for part in ("contract", "steps", "staging_steps", *(path.stem for path in HERE.glob("of_*.py"))):
    pytest.register_assert_rewrite(f"stores.{part}")
from harness.postgres import Postgres  # noqa: E402  # after the lines above


@pytest.fixture(scope="session")
def running_postgres():
    with Postgres() as server:
        yield server


@pytest.fixture
def postgres(running_postgres):
    """A server with an empty store."""
    running_postgres.wipe()
    return running_postgres
