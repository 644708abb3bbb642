"""A throw-away PostgreSQL: Debian's program, a cluster of our own in a temporary folder, nothing left behind.

PostgreSQL refuses to run as root: then it runs as the user postgres, which Debian's package has created. It ends by
itself when the process that started it is gone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import psycopg
from harness import run_folder
from harness.patience import TIMEOUT

from pubqueue.loopback import free_ports
from pubqueue_demo.postgres import ROLE, program
from pubqueue_demo.prosody import ATTEMPTS, PortTakenError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

READY: Final = b"database system is ready to accept"  # connections, or read-only ones
SILENT: Final = "10s"
"""How long a connected client may stay silent. PostgreSQL's end waits for clients that connected while it ended,
without a signal to them: by default a minute, as long as a test waits. Stores give up connecting after five seconds.
"""

ENDED: Final = (
    f"SELECT pg_terminate_backend(pid, {int(1000 * TIMEOUT)}) FROM pg_stat_activity WHERE "
)
"""Ends sessions, with a condition; it returns when they are gone, with their locks and places."""
SESSIONS: Final = f"{ENDED} application_name = 'pubqueue'"
"""Ends those of services and programs."""
LEFT: Final = f"{ENDED} datname = 'queues' AND pid != pg_backend_pid()"
"""Ends the sessions of killed processes: one may still have work in its socket, and would do it after a wipe."""

WIPE: Final = """
    DO $$ DECLARE names text; BEGIN
        SELECT string_agg(oid::regclass::text, ', ') INTO names FROM pg_class
        WHERE relnamespace = to_regnamespace('pubqueue') AND relkind = 'r' AND relname != 'pubqueue'
            AND (pg_relation_size(oid) > 0 OR oid IN (
                SELECT refobjid FROM pg_depend JOIN pg_sequence ON seqrelid = objid AND classid = 'pg_class'::regclass
                WHERE pg_sequence_last_value(seqrelid) IS NOT NULL));
        IF names IS NOT NULL THEN
            EXECUTE 'TRUNCATE ' || names || ' RESTART IDENTITY CASCADE';
            INSERT INTO pubqueue.writing VALUES (0, 0);
            INSERT INTO pubqueue.sequence VALUES ('item', 1), ('token', 1), ('told', 1);
        END IF;
    END $$
"""
"""Returns a store to its initial state, without creating its tables again. A table of no pages whose numbers
were not used is as new: to truncate it would make new files for it and its indexes."""


class PostgresError(RuntimeError):
    """PostgreSQL did not start, or did not obey."""


class Postgres:
    """A server on loopback, with a database `queues` in which a role may only use its own schema.

    A context manager: entered when it serves, left with the process ended and its files removed. `settings` are given to the
    server unchanged; without `fsync` it forgets more in a loss of power than a test has. `inside` is a command that runs its
    programs; `data` and `log` are the places of its tables and its log, in a temporary folder unless they are absolute, and
    `segment` is how many megabytes a file of the log has.
    `anew` makes its files even if the run of tests has some that can be copied.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        *,
        inside: Sequence[str] = (),
        data: str = "data",
        log: str = "log",
        segment: int = 16,
        anew: bool = False,
        **settings: str,
    ) -> None:
        self._inside, self._data_folder, self._log_folder = inside, data, log
        self._segment = segment
        self._is_usual = not anew and (inside, data, log, segment) == ((), "data", "log", 16)
        self.port = 0
        self._settings = {"fsync": "off"} | settings
        self._temp: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    @property
    def address(self) -> str:
        """The address of the store, as a configuration has it."""
        return f"postgresql://{ROLE}@{self.host}:{self.port}/queues"

    @property
    def pid(self) -> int:
        """The server's process id; after `kill`, the one it had."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self._temp = tempfile.TemporaryDirectory(prefix="pubqueue-postgres-")
        try:
            belongs(Path(self._temp.name))
            if laid := self._laid_for_all():
                copy(laid, Path(self._temp.name))
                self._write_log_to_its_place()
            else:
                self._lay()
            self._start_on_a_free_port()
            if not laid:
                self._furnish()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _start_on_a_free_port(self) -> None:
        """Another program may take the port between the choice and the start."""
        for _ in range(ATTEMPTS):
            (self.port,) = free_ports(1)
            self._said = b""
            try:
                return self.start()
            except PostgresError:
                if b"Address already in use" not in self._said:
                    raise
        raise PortTakenError(f"no free port stayed free {ATTEMPTS} times")

    def start(self) -> None:
        """Start it, also after `stop` or `kill`: same port, same data."""
        given = {
            "port": str(self.port),
            "listen_addresses": self.host,
            "unix_socket_directories": "",
            "logging_collector": "off",
            "authentication_timeout": SILENT,
            "shared_buffers": "16MB",
            "dynamic_shared_memory_type": "mmap",  # so that a crash leaves it in our folder
        } | self._settings
        options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            # QUIT ends it and its children at once, without a sync
            [
                *self._inside,
                "setpriv",
                "--pdeathsig",
                "QUIT",
                *other_user(),
                "--",
                program("postgres"),
                "-D",
                self._data,
                *options,
            ],
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(self._process, ready), daemon=True).start()
        if not ready.wait(TIMEOUT) or self._process.poll() is not None:
            raise PostgresError(f"PostgreSQL did not start:\n{self._said.decode()}")

    def stop(self) -> None:
        """Stop it in order: connected clients are disconnected."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGQUIT)

    def crash(self) -> None:
        """End it and all its children by SIGKILL, all at once; their shared memory is released."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # so that no child is created in the meantime
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        shared = Path(self._data, "postmaster.pid").read_text().splitlines()[6].split()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._end(signal.SIGKILL)
        subprocess.run(["ipcrm", "--shmem-id", shared[1]], check=True)

    @property
    def has_ended(self) -> bool:
        """Whether it is down, as after a crash that it could not recover from."""
        return self._process is None or self._process.poll() is not None

    def ask(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Run a statement as the superuser, which is not the store."""
        with self.session() as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def session(self) -> psycopg.Connection:
        """Return a connection of the superuser, to be closed by the caller."""
        return psycopg.connect(
            f"postgresql://postgres@{self.host}:{self.port}/queues", autocommit=True
        )

    def wipe(self) -> None:
        """Return the store to its initial state."""
        with self.session() as connection:
            connection.execute(LEFT.encode())
            connection.execute(WIPE)

    def want_passwords(self) -> None:
        """From now on the role has to send its password; the superuser has none."""
        lines = (
            f"host all postgres {self.host}/32 trust",
            f"host all all {self.host}/32 scram-sha-256",
            "",
        )
        Path(self._data, "pg_hba.conf").write_text("\n".join(lines))
        self.ask("SELECT pg_reload_conf()")

    @property
    def _data(self) -> str:
        return self._path(self._data_folder)

    def _path(self, folder: str) -> str:
        assert self._temp is not None, "the server is entered with `with`"
        return str(Path(self._temp.name, folder))

    def _laid_for_all(self) -> Path | None:
        """Return the files of a server that has no wishes of its own, made once for a run of tests and stopped in order."""
        folder = run_folder.shared()
        if folder is None or not self._is_usual:
            return None
        laid = folder / "postgres"
        with (folder / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not laid.exists():
                with Postgres(anew=True) as first:
                    first.stop()
                    copy(Path(first._path("")), folder / "postgres.draft")
                (folder / "postgres.draft").rename(laid)
        return laid

    def _write_log_to_its_place(self) -> None:
        place = Path(self._data, "pg_wal")
        place.unlink()
        place.symlink_to(self._path(self._log_folder))

    def _lay(self) -> None:
        """Make the cluster. No password is needed: it listens on loopback alone, for a minute."""
        self._run(
            "initdb",
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            f"--waldir={self._path(self._log_folder)}",
            f"--wal-segsize={self._segment}",
        )

    def _furnish(self) -> None:
        with psycopg.connect(
            f"postgresql://postgres@{self.host}:{self.port}/postgres", autocommit=True
        ) as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
            connection.execute("CREATE DATABASE queues")
        self.ask("REVOKE ALL ON DATABASE queues FROM PUBLIC")
        self.ask(f"GRANT CONNECT ON DATABASE queues TO {ROLE}")
        self.ask(f"CREATE SCHEMA pubqueue AUTHORIZATION {ROLE}")

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [
                *self._inside,
                *("setpriv", *other_user(), "--"),
                *(program(name), "-D", self._data, *arguments),
            ],
            cwd="/",
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise PostgresError(f"{name} failed:\n{done.stderr.decode()}")

    def _listen(self, process: subprocess.Popen[bytes], ready: threading.Event) -> None:
        """Read its output, so that it never waits for a reader."""
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self._said += line
                if READY in line:
                    ready.set()
        process.wait()
        ready.set()  # or it has ended

    def _end(self, by: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(by)
            self._process.wait(TIMEOUT)

    def _leave(self) -> None:
        try:
            self.kill()
        except subprocess.TimeoutExpired:
            self.crash()  # it waited for a child that a test had stopped; the data is not needed any more
        finally:
            if self._temp is not None:
                self._temp.cleanup()
                self._temp = None


def other_user() -> Sequence[str]:
    """Return how to run as a user other than root."""
    if os.geteuid():
        return ()
    return ("--reuid", "postgres", "--regid", "postgres", "--clear-groups")


def copy(folder: Path, to: Path) -> None:
    """Copy what is in a folder, with its owners, into another, which may be new."""
    to.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", f"{folder}/.", to], check=True)


def belongs(folder: Path) -> None:
    """Give the folder to that user."""
    if not os.geteuid():
        shutil.chown(folder, "postgres", "postgres")
