import pytest
from harness.asks import a_queue
from harness.shell import Shell
from harness.store_contents import recount
from harness.transactions import MORE


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(a_queue())
    shell.do(a_queue(MORE))
    yield shell
    assert shell.look_within(recount) == []
    shell.close()
