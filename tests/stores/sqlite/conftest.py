"""A store in a file of the test."""

import pytest

from pubqueue.stores.sqlite import SqliteStore


@pytest.fixture
async def store(tmp_path):
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    yield store
    await store.close()
