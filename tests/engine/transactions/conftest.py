"""A shell on SQLite, with two queues; at the end its counts are recounted."""

import pytest
from harness.batches.queue_requests import a_queue
from harness.batches.shell import Shell
from harness.batches.transactions import MORE
from harness.stores.store_contents import recount


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(a_queue())
    shell.do(a_queue(MORE))
    yield shell
    assert shell.look_within(recount) == []
    shell.close()
