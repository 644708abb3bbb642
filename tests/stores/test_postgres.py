"""The PostgreSQL store: the contract, on a server of the tests' own."""

import pytest

PARTS = "nodes", "items", "contents", "time", "batches", "staging", "commits", "slices", "history"
for part in ("contract", "steps", "staging_steps", *(f"of_{name}" for name in PARTS)):
    pytest.register_assert_rewrite(f"stores.{part}")
from stores.contract import SharedStoreContract  # noqa: E402  # after the line above

from pubqueue.stores.postgres.store import PostgresStore  # noqa: E402  # as above


class TestPostgres(SharedStoreContract):
    """The contract, in a database whose role may do nothing else."""

    @pytest.fixture
    def make_store(self, postgres):
        return lambda: PostgresStore(postgres.address)
