"""Rules and a store, without their threads. Other tests run the machines too: their failures are reported like those of tests."""

import pytest
from harness.batches.shell import Shell

pytest.register_assert_rewrite("engine")


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    yield shell
    shell.close()
