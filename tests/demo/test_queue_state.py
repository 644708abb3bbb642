from pubqueue.stores.sqlite.store import SqliteStore
from pubqueue_demo import queue_state
from pubqueue_demo.queue_state import File, QueueState


async def test_a_new_database_is_an_empty_queue(tmp_path):
    database = tmp_path / "a queue.db"
    store = SqliteStore(database)
    await store.open()
    try:
        assert queue_state.look(File(database)) == QueueState(items=0, in_flight=0)
        assert queue_state.remaining(File(database)) == set()
    finally:
        await store.close()


def test_what_is_not_in_flight_waits():
    assert QueueState(items=80, in_flight=64).depth == 16
