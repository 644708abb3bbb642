"""The throw-away Prosody itself: it starts, serves, comes back and leaves nothing."""

import os
import socket

import pytest
from harness.servers.logging_in import log_in

from pubqueue.loopback import free_ports
from pubqueue_demo.process import ChildError
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_client_logs_in_before_and_after_a_restart_and_nothing_is_left():
    async with Prosody() as server:
        folder, first = server.folder, server.pid
        jid = await server.account("bot", "secret1")
        assert await log_in(server, jid, "secret1") == "session_start"
        assert await log_in(server, jid, "wrong") == "failed_all_auth"
        await server.restart()
        second = server.pid
        assert await log_in(server, jid, "secret1") == "session_start"
        await server.kill()
        await server.start()
        third = server.pid
        assert await log_in(server, jid, "secret1") == "session_start"
    assert not any(map(alive, (first, second, third)))
    assert not folder.exists()


async def test_a_failing_body_leaves_nothing_either():
    seen = []

    async def fail():
        async with Prosody() as server:
            seen.extend((server.folder, server.pid))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    folder, pid = seen
    assert not alive(pid)
    assert not folder.exists()


async def test_a_server_that_does_not_start_shows_its_last_words():
    with pytest.raises(ChildError, match="Prosody did not start"):
        async with Prosody(modules=('"',)):
            pass


async def test_a_port_taken_meanwhile_is_given_up_for_another(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        lists = iter([[taken.getsockname()[1], *free_ports(1)], free_ports(2)])
        monkeypatch.setattr("pubqueue_demo.prosody.free_ports", lambda _: next(lists))
        async with Prosody() as server:
            assert server.c2s_port != taken.getsockname()[1]
