"""Libervia, a client for microblogs, with a home, a bus and a backend of its own; nothing left behind."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOISE = ("ProgressBar not", "Progress bar", "--", "Missing module", "dbus-daemon")
"""Its remarks about the machine, which it prints with every command."""


class Libervia:
    """Its command line, for one profile."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    async def says(self, *words: str, typed: str = "") -> str:
        """Run a command; return its output, errors too."""
        process = await asyncio.create_subprocess_exec(
            *("libervia-cli", *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        async with asyncio.timeout(TIMEOUT):
            said, _ = await process.communicate(typed.encode())
        return "\n".join(it for it in said.decode().splitlines() if not it.startswith(NOISE))


BUS = """<busconfig><type>session</type><listen>unix:tmpdir={folder}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
</policy></busconfig>"""
"""A bus that starts nothing by itself."""


@asynccontextmanager
async def libervia(server: Any, account: str, folder: Path) -> AsyncIterator[Libervia]:
    """Log the account in, whose password is `secret`, as the profile `me`."""
    domain = account.partition("@")[2]
    config = folder / ".config" / "libervia" / "libervia.conf"
    config.parent.mkdir(parents=True)
    hosts = json.dumps({domain: {"host": server.host, "port": server.c2s_port}})
    config.write_text(f"[DEFAULT]\nxmpp_domain = {domain}\nhosts_dict = {hosts}\n")
    (folder / "bus.conf").write_text(BUS.format(folder=folder))
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    environment["PYTHONUNBUFFERED"] = "1"
    async with AsyncExitStack() as stack:
        command = (f"--config-file={folder / 'bus.conf'}", "--nofork", "--print-address")
        bus = await stack.enter_async_context(_child("dbus-daemon", *command, **environment))
        environment["DBUS_SESSION_BUS_ADDRESS"] = await _line(bus, "unix:")
        backend = await stack.enter_async_context(_child("libervia-backend", "fg", **environment))
        await _line(backend, "Backend is ready")
        made = Libervia(environment)
        await made.says("profile", "create", "-p", "secret", "-j", account, "-x", "secret", "me")
        # it logs in without TLS only if it does not check certificates
        await made.says("param", "set", "Connection", "check_certificate", "false", "-p", "me")
        said = await made.says("profile", "connect", "-p", "me", "-c", "--pwd", "secret")
        assert not said.strip(), said
        yield made


async def _line(process: asyncio.subprocess.Process, what: str) -> str:
    """Return the next line of its output that contains this."""
    assert process.stdout
    async with asyncio.timeout(TIMEOUT):
        async for line in process.stdout:
            if what in line.decode():
                return line.decode().strip()
    raise AssertionError(f"it has ended, and never said {what}")


@asynccontextmanager
async def _child(*command: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
