"""An operator at a terminal: runs `pubqueue`, and reads its output."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.patience import TIMEOUT
from harness.starts import warm_start
from harness.starts.warm_start import PUBQUEUE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.servers.ejabberd import Ejabberd

    from pubqueue_demo.prosody import Prosody


@dataclass(frozen=True, slots=True)
class Said:
    """How it ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """The lines of JSON."""
        assert self.code == 0, self
        return [json.loads(line) for line in self.out.splitlines()]


class Operator:
    """One account at a terminal; the environment names the account and the service."""

    def __init__(
        self,
        server: Prosody | Ejabberd,
        account: str = "root",
        *,
        password: str = "secret",
        service: str = "queue.localhost",
        program: Path = PUBQUEUE,
    ) -> None:
        self.program = program
        address = f"host={server.host}&port={server.c2s_port}&tls=off"
        self.url = f"xmpp://{account}@localhost/{service}?{address}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if "PUBQUEUE" not in name},
            "PUBQUEUE_URL": self.url,
            "PUBQUEUE_PASSWORD": password,
        }

    @asynccontextmanager
    async def running(
        self, *words: str, **more: str
    ) -> AsyncIterator[asyncio.subprocess.Process | warm_start.Process]:
        """Run `pubqueue` with these words; kill it if the test has not ended it."""
        process = await warm_start.program(
            *(self.program, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment | more,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    @staticmethod
    async def shown(process: asyncio.subprocess.Process | warm_start.Process, text: str) -> None:
        """Return when the program has written a line with this text; it fails if the program ends before."""
        assert process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            while text not in (line := (await process.stdout.readline()).decode()):
                assert line, f"it ended before it wrote {text!r}"

    async def says(self, *words: str, **more: str) -> Said:
        """Run `pubqueue` to its end."""
        async with asyncio.timeout(TIMEOUT), self.running(*words, **more) as process:
            out, err = await process.communicate()
        assert process.returncode is not None
        assert "Traceback" not in err.decode(), err.decode()
        return Said(process.returncode, out.decode(), err.decode())

    async def rows(self, *words: str) -> list[Any]:
        """Return its output for programs."""
        return (await self.says(*words, "--json")).rows

    async def does(self, *words: str) -> str:
        """Run it where it has to succeed, and return its output for people."""
        said = await self.says(*words)
        assert said.code == 0, said
        return said.out
