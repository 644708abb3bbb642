"""The PostgreSQL of tests ends, whichever clients are connected."""

import os
import signal
import socket

from harness.databases.postgres import Postgres


def test_it_ends_although_a_silent_client_connects_meanwhile():
    with Postgres() as server:
        os.kill(server.pid, signal.SIGSTOP)
        with socket.create_connection((server.host, server.port)):
            os.kill(server.pid, signal.SIGQUIT)  # taken before the connection is
            os.kill(server.pid, signal.SIGCONT)
            server.kill()
            assert server.has_ended
