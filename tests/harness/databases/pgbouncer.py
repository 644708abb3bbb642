"""Debian's pgbouncer in front of a test's PostgreSQL: on loopback, in a folder of its own, ended with the test."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
from harness.patience import TIMEOUT

from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM: Final = "/usr/sbin/pgbouncer"
USER: Final = "nobody"
"""It refuses to run as root."""

SETTINGS: Final = """\
[databases]
queues = host=127.0.0.1 port={behind} dbname=queues
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
server_round_robin = {robin}
min_pool_size = 3
ignore_startup_parameters = extra_float_digits
"""


@contextmanager
def pooled(address: str, mode: str, *, robin: bool = False) -> Iterator[str]:
    """Run it in front of the server of this address; yields the address through it."""
    behind = psycopg.conninfo.conninfo_to_dict(address)
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="pubqueue-pgbouncer-") as folder:
        file = Path(folder) / "pgbouncer.ini"
        file.write_text(
            SETTINGS.format(behind=behind["port"], port=port, mode=mode, robin=int(robin)).replace(
                "dbname=queues", f"dbname=queues user={behind['user']}"
            )
        )
        Path(folder).chmod(0o755)
        started = subprocess.Popen(
            (PROGRAM, str(file)),
            stderr=subprocess.PIPE,
            text=True,
            user=USER if os.geteuid() == 0 else None,
        )
        try:
            assert started.stderr is not None
            for line in started.stderr:
                if "process up" in line:
                    break
            else:
                message = f"{PROGRAM} did not start: {started.wait(TIMEOUT)}"
                raise RuntimeError(message)
            yield address.replace(f":{behind['port']}/", f":{port}/")
        finally:
            started.terminate()
            started.wait(TIMEOUT)
            started.stderr.close()
