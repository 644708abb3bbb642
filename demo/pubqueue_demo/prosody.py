"""A temporary Prosody: Debian's program, with its own configuration and files that are removed at the end."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pubqueue.loopback import free_ports
from pubqueue_demo.process import Child, ChildError, read_log, spawn, tail

if TYPE_CHECKING:
    from types import TracebackType

START_TIMEOUT = 20.0
POLL = 0.05
ATTEMPTS = 5

# Other settings have Prosody's defaults: `component_conflict_resolve` (a second component of
# the same name is refused), the stanza size limits (256 KiB for clients, 512 KiB for components).
CONFIG = """\
data_path = "{folder}/data"
pidfile = "{folder}/prosody.pid"
-- Prosody rightly refuses to run as root; this one runs for minutes, on loopback, in a container.
run_as_root = true
-- One log file: its tail is shown if the server does not start.
log = {{ info = "{folder}/prosody.log" }}

interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {c2s_port} }}
component_ports = {{ {component_port} }}
component_interfaces = {{ "127.0.0.1" }}

-- Debian's list enables "limits": 10 kB/s for each client, which is 28 items a second. It is not
-- here, hence there is no limit. "smacks" is not here either: a killed client's session would wait
-- ten minutes for its return, and its messages with it.
modules_enabled = {{ "disco", "roster", "saslauth", "ping", "posix"{modules} }}
-- No connections to other servers.
modules_disabled = {{ "s2s", "s2s_auth_certs"{without} }}

-- A stanza and its answer are small: waiting to fill a packet (Nagle) costs 40 ms for each.
network_settings = {{ nagle = false }}

-- No TLS: passwords are sent only over loopback, and TLS would need a certificate.
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
-- Accounts are files with the password, so that an account is created by writing a file.
authentication = "internal_plain"
storage = "internal"

{hosts}
"""

HOST = """
VirtualHost "{host}"
"""

ROOMS = """
Component "{rooms}" "muc"
"""

COMPONENT = """
Component "{component}"
    component_secret = "{secret}"
"""


class PortTakenError(Exception):
    """Another program took a port that was free."""


class NotInstalledError(Exception):
    """Prosody is not installed on this machine."""


class Prosody:
    """A Prosody server for `domain`, with one external component, on loopback.

    An async context manager: entering waits until the client and component ports accept connections; leaving ends the
    process and removes its files. `modules` are loaded in addition to the usual ones, `without` are left out;
    `more_domains` and `more_components` are also served, with the same secret; `rooms` is a domain of rooms (XEP-0045).
    """

    host = "127.0.0.1"
    domain = "localhost"

    def __init__(
        self,
        *,
        component: str = "queue.localhost",
        modules: tuple[str, ...] = (),
        without: tuple[str, ...] = (),
        more_domains: tuple[str, ...] = (),
        more_components: tuple[str, ...] = (),
        rooms: str = "",
    ) -> None:
        self.component = component
        self._rooms = rooms
        self.modules = modules
        self._without = without
        self._domains = (self.domain, *more_domains)
        self._components = (component, *more_components)
        self.secret = secrets.token_hex(16)
        self.c2s_port = self.component_port = 0
        self._temp: tempfile.TemporaryDirectory[str] | None = None
        self._child: Child | None = None

    @property
    def folder(self) -> Path:
        """The folder of configuration, data and log, while the server runs."""
        assert self._temp is not None, "the server is entered with `async with`"
        return Path(self._temp.name)

    @property
    def pid(self) -> int:
        """The server's process id; after `kill`, its former one."""
        assert self._child is not None
        return self._child.pid

    async def __aenter__(self) -> Self:
        self._temp = tempfile.TemporaryDirectory(prefix="pubqueue-prosody-")
        try:
            await self._start_on_free_ports()
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

    async def account(self, name: str, password: str, domain: str | None = None) -> str:
        """Create the account, or change its password; return its JID."""
        domain = domain or self.domain
        if not name.isascii() or not name.isalnum() or not password.isalnum():
            raise ValueError("an account's name and password are ASCII letters and digits")
        folder = re.sub(r"\W", lambda found: f"%{ord(found[0]):02x}", domain)
        accounts = self.folder / "data" / folder / "accounts"
        accounts.mkdir(parents=True, exist_ok=True)
        (accounts / f"{name}.dat").write_text(f'return {{ ["password"] = "{password}" }};\n')
        return f"{name}@{domain}"

    async def start(self) -> None:
        """Start it again after `stop` or `kill`, with the same ports, secret and accounts."""
        log = self.folder / "prosody.log"
        log.unlink(missing_ok=True)
        self._child = await spawn(
            [program(), "--config", self.folder / "prosody.cfg.lua", "-F"],
            name="Prosody",
            log=self.folder / "output.log",
            read=False,
        )
        await self._ready(self._child, log)

    async def stop(self) -> None:
        """Stop it cleanly: every stream gets its closing tag."""
        if self._child is not None:
            await self._child.stop()

    async def kill(self) -> None:
        """Kill it with SIGKILL, like a crash."""
        if self._child is not None:
            await self._child.kill()

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    async def _start_on_free_ports(self) -> None:
        for _ in range(ATTEMPTS):
            self.c2s_port, self.component_port = free_ports(2)
            (self.folder / "prosody.cfg.lua").write_text(self._config())
            try:
                return await self.start()
            except PortTakenError:
                await self.kill()
        raise PortTakenError(f"no free loopback port stayed free {ATTEMPTS} times")

    def _config(self) -> str:
        return CONFIG.format(
            folder=self.folder,
            c2s_port=self.c2s_port,
            component_port=self.component_port,
            modules="".join(f', "{module}"' for module in self.modules),
            without="".join(f', "{module}"' for module in self._without),
            hosts="".join(
                [HOST.format(host=it) for it in self._domains]
                + [COMPONENT.format(component=it, secret=self.secret) for it in self._components]
                + ([ROOMS.format(rooms=self._rooms)] if self._rooms else [])
            ),
        )

    async def _ready(self, child: Child, log: Path) -> None:
        """Wait for both ports by reading the log, because another program may answer on a port that we lost."""
        services = [f"'c2s' on [{self.host}]:{self.c2s_port}"]
        services += [f"'component' on [{self.host}]:{self.component_port}"]
        for _ in range(int(START_TIMEOUT / POLL)):
            text = read_log(log)
            if "Failed to open server port" in text:
                raise PortTakenError
            if all(f"Activated service {service}" in text for service in services):
                return
            if not child.running:
                # it has two: its log, and the output before it can log
                raise ChildError("Prosody", f"did not start\n{tail(log)}", child.log)
            await asyncio.sleep(POLL)
        raise ChildError("Prosody", f"was not ready after {START_TIMEOUT:g} s", log)

    async def _leave(self) -> None:
        try:
            await self.stop()
        finally:
            if self._temp is not None:
                self._temp.cleanup()
                self._temp = None


def program() -> str:
    """Find Prosody; raise NotInstalledError if it is not installed."""
    found = shutil.which("prosody") or shutil.which("prosody", path="/usr/bin:/usr/sbin")
    if found is None:
        raise NotInstalledError("Prosody is not installed: run `apt-get install prosody`")
    return found
