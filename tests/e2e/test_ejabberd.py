"""The throw-away ejabberd itself: it starts, serves, comes back and leaves nothing."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from harness.servers import ejabberd
from harness.servers.ejabberd import Ejabberd, EjabberdError
from harness.servers.logging_in import log_in

from pubqueue.loopback import free_ports

pytestmark = pytest.mark.e2e


def command_lines() -> set[str]:
    """Return what runs on this machine, for looking whose folder or node name is in it."""
    lines = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            lines.add(path.read_bytes().decode(errors="replace"))
    return lines


async def test_a_client_logs_in_before_and_after_a_restart_and_nothing_is_left():
    pids = []
    async with Ejabberd() as server:
        folder = server.folder
        jid = await server.account("bot", 'se"cret')
        assert await log_in(server, jid, 'se"cret') == "session_start"
        assert await log_in(server, jid, "wrong") == "failed_all_auth"
        pids.append(server.pid)
        await server.restart()
        assert await log_in(server, jid, 'se"cret') == "session_start"
        pids.append(server.pid)
        await server.kill()
        await server.start()
        await server.account("bot", "another")
        assert await log_in(server, jid, "another") == "session_start"
        pids.append(server.pid)
        assert not any(server.secret in line for line in command_lines())
    assert not folder.exists()
    assert not any(str(folder) in line for line in command_lines())
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_an_account_that_cannot_be_made_is_a_sentence():
    async with Ejabberd() as server:
        with pytest.raises(EjabberdError, match="made no account a@b"):
            await server.account("a@b", "x")


async def test_without_ejabberd_the_message_names_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(ejabberd, "LIBRARIES", tmp_path)
    with pytest.raises(EjabberdError, match="apt-get install ejabberd"):
        async with Ejabberd():
            pass


async def test_a_port_taken_meanwhile_is_given_up_for_another(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        lists = iter([[taken.getsockname()[1], *free_ports(1)], free_ports(2)])
        monkeypatch.setattr(ejabberd, "free_ports", lambda _: next(lists))
        async with Ejabberd() as server:
            assert server.c2s_port != taken.getsockname()[1]
