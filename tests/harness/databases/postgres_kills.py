"""PostgreSQL, or a part of it, killed with SIGKILL, without any clean-up."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from harness.databases.postgres import Postgres

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pubqueue' ORDER BY pid"


def kill_all(server: Postgres) -> None:
    """Kill the server with all its children. `start` begins with what is on the disk."""
    others = children(server.pid)
    for pid in (server.pid, *others):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.kill()  # it is dead: this waits for it
    while any(Path(f"/proc/{pid}").exists() for pid in others):
        pass  # it would not start beside them


def kill_session(server: Postgres, random: Random) -> None:
    """Kill the process of one connection of the queue; the server then ends all others and restarts by itself."""
    if pids := sessions(server):
        with suppress(ProcessLookupError):
            os.kill(random.choice(pids), signal.SIGKILL)


def sessions(server: Postgres) -> list[int]:
    """Return the processes of the connections of the queue. Raises psycopg.OperationalError while the server cannot be asked."""
    return [int(str(pid)) for (pid,) in server.ask(SESSIONS)]


def children(pid: int) -> list[int]:
    """Return the processes whose parent this is."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            rest = status.read_text().rpartition(")")[2].split()
            if int(rest[1]) == pid:
                found.append(int(status.parent.name))
    return found
