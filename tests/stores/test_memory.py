"""The store that lives in memory: the contract, and what it costs."""

import pytest

for part in (
    "contract",
    "of_nodes",
    "of_items",
    "of_time",
    "of_batches",
    "of_staging",
    "of_history",
    "steps",
):
    pytest.register_assert_rewrite(f"stores.{part}")
from stores.contract import StoreContract  # noqa: E402  # after the line above

from pubqueue.stores.memory import MemoryStore  # noqa: E402  # as above


class TestMemory(StoreContract):
    """The contract; what one store keeps, another knows nothing of."""

    @pytest.fixture
    def make_store(self):
        return MemoryStore
