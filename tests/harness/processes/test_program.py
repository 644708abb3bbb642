"""What a test says that fails because the program has ended under it."""

import signal

import pytest
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer


async def failed(config):
    """Fail as a client does whose service crashes."""
    async with Program(config) as program:
        program.process.send_signal(signal.SIGSEGV)
        await program.process.wait()
        raise ConnectionError


async def test_it_names_the_status_and_the_log(tmp_path):
    async with StubServer() as server:
        with pytest.raises(ConnectionError) as failure:
            await failed(write_config(tmp_path, server))
    (note,) = failure.value.__notes__
    assert note.startswith(f"the program has ended ({-signal.SIGSEGV}):\n")
    assert "Fatal Python error: Segmentation fault" in note
