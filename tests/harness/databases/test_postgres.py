"""The PostgreSQL of tests ends, whichever clients are connected."""

import os
import signal
import socket

from harness.databases import postgres
from harness.databases.postgres import Postgres


def test_it_ends_although_a_silent_client_connects_meanwhile():
    with Postgres() as server:
        os.kill(server.pid, signal.SIGSTOP)
        with socket.create_connection((server.host, server.port)):
            os.kill(server.pid, signal.SIGQUIT)  # taken before the connection is
            os.kill(server.pid, signal.SIGCONT)
            server.kill()
            assert server.has_ended


def test_it_takes_another_port_if_the_first_is_lost(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = postgres.free_ports
        ports = iter([[taken.getsockname()[1]]])
        monkeypatch.setattr(postgres, "free_ports", lambda count: next(ports, None) or found(count))
        with Postgres() as server:
            assert server.port != taken.getsockname()[1]
            assert server.ask("SELECT 1") == [(1,)]
