"""A temporary PostgreSQL: Debian's program, with a cluster in a temporary folder that is removed at the end.

PostgreSQL refuses to run as root; it then runs as the user postgres of Debian's package.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from pubqueue.loopback import free_ports
from pubqueue_demo.process import Child, ChildError, spawn, tail
from pubqueue_demo.prosody import NotInstalledError

if TYPE_CHECKING:
    from types import TracebackType

PROGRAMS: Final = Path("/usr/lib/postgresql")
ROLE: Final = "queue"
READY: Final = "database system is ready to accept connections"
START_TIMEOUT: Final = 30.0
POLL: Final = 0.05


class Postgres:
    """A server on loopback with a database `queues`; entering waits until it accepts connections."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self.port = 0
        self._temp: tempfile.TemporaryDirectory[str] | None = None
        self._child: Child | None = None

    @property
    def address(self) -> str:
        """The address of the store, as in a configuration."""
        return f"postgresql://{ROLE}@{self.host}:{self.port}/queues"

    async def __aenter__(self) -> Self:
        self._temp = tempfile.TemporaryDirectory(prefix="pubqueue-postgres-")
        try:
            await self._start()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave()

    @property
    def pid(self) -> int:
        """Its first process, which starts the others."""
        assert self._child is not None, "the server is entered with `async with`"
        return self._child.pid

    @property
    def _folder(self) -> Path:
        assert self._temp is not None, "the server is entered with `async with`"
        return Path(self._temp.name)

    async def _start(self) -> None:
        if not os.geteuid():
            shutil.chown(self._folder, "postgres", "postgres")
        # it listens only on loopback, for a minute: nobody needs its passwords to be safe
        await self._make("initdb", "--auth=trust", f"--username={ROLE}", "--encoding=UTF8")
        (self.port,) = free_ports(1)
        settings = {
            "port": str(self.port),
            "listen_addresses": self.host,
            "unix_socket_directories": "",
            "logging_collector": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._child = await self._spawn("postgres", *options)
        await self._ready(self._child)
        await self._make("createdb", "-h", self.host, "-p", str(self.port), "-U", ROLE, "queues")

    async def _make(self, name: str, *arguments: str) -> None:
        child = await self._spawn(name, *arguments)
        if await child.wait():
            raise ChildError(name, "failed", child.log)

    async def _spawn(self, name: str, *arguments: str) -> Child:
        where = () if name == "createdb" else ("-D", str(self._folder / "data"))
        return await spawn(
            # a change of user would lose the flag that `spawn` sets; QUIT ends it and its children
            [*_as_other_user(), program(name), *where, *arguments],
            name="PostgreSQL",
            log=self._log,
            cwd=Path("/"),
            read=False,
        )

    @property
    def _log(self) -> Path:
        return self._folder / "output.log"

    async def _ready(self, child: Child) -> None:
        for _ in range(int(START_TIMEOUT / POLL)):
            if READY in self._log.read_text(errors="replace"):
                return
            if not child.running:
                raise ChildError("PostgreSQL", f"did not start\n{tail(self._log)}", child.log)
            await asyncio.sleep(POLL)
        raise ChildError("PostgreSQL", f"was not ready after {START_TIMEOUT:g} s", child.log)

    async def _leave(self) -> None:
        try:
            if self._child is not None:
                await self._child.stop()
        finally:
            if self._temp is not None:
                self._temp.cleanup()
                self._temp = None


def program(name: str) -> str:
    """Find Debian's program, in the newest installed version; it is not on PATH."""
    found = sorted(PROGRAMS.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise NotInstalledError("PostgreSQL is not installed: run `apt-get install postgresql`")
    return str(found[-1])


def _as_other_user() -> tuple[str, ...]:
    flag = ("setpriv", "--pdeathsig", "QUIT")
    if os.geteuid():
        return (*flag, "--")
    return (*flag, "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--")
