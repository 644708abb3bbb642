"""A throw-away ejabberd: Debian's program, a configuration of our own, nothing left behind.

Debian's ejabberdctl insists on being root or the user ejabberd, and on epmd. The Erlang machine
insists on neither: it is started here directly, without distribution (no node name, no epmd, no
cookie), and reads Erlang calls from its standard input. So an account needs no registration over
the wire, and the server ends by itself when the process that started it is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pubqueue.loopback import free_ports
from pubqueue_demo.prosody import ATTEMPTS, PortTakenError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

START_TIMEOUT = 60.0
LIBRARIES = Path("/usr/lib")

# It reports when it serves, then evaluates one {Module, Function, Arguments} a line until the
# input ends, and then stops in order.
BOOT = """
{ok, _} = ejabberd:start(),
io:put_chars("ready\\n"),
Serve = fun Next() ->
    case io:read("") of
        {ok, {Module, Function, Arguments}} ->
            io:format("~0p~n", [apply(Module, Function, Arguments)]),
            Next();
        _ -> init:stop()
    end
end,
Serve().
"""


class EjabberdError(RuntimeError):
    """ejabberd is missing, did not start, or did not obey."""


class Ejabberd:
    """An ejabberd for the domain localhost, with one external component, on loopback.

    An async context manager: entered when both ports serve, left with the process ended and its
    files removed. `more_domains` and `more_components` are served in addition to the first, with
    the same secret; `rooms` is a domain of rooms (XEP-0045), and with `archive` accounts have one (XEP-0313). `certificate` is a file of a certificate and
    its key, and `c2s` more options of the port for clients.
    """

    host = "127.0.0.1"
    domain = "localhost"

    def __init__(
        self,
        *,
        component: str = "queue.localhost",
        more_domains: tuple[str, ...] = (),
        more_components: tuple[str, ...] = (),
        lets_read_rosters: bool = False,
        rooms: str = "",
        archive: bool = False,
        certificate: Path | None = None,
        c2s: Mapping[str, object] | None = None,
    ) -> None:
        self.component = component
        self._certificate, self._c2s = certificate, c2s or {}
        self._rooms = rooms
        self._archive = archive
        self._domains = (self.domain, *more_domains)
        self._components = (component, *more_components)
        self._lets_read_rosters = lets_read_rosters
        self.secret = secrets.token_hex(16)
        self.c2s_port = self.component_port = 0
        self._temp: tempfile.TemporaryDirectory[str] | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def folder(self) -> Path:
        """Where configuration, data and log are, while the server lives."""
        assert self._temp is not None, "the server is entered with `async with`"
        return Path(self._temp.name)

    @property
    def pid(self) -> int:
        """The server's process id; after `kill`, the one it had."""
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        self._temp = tempfile.TemporaryDirectory(prefix="pubqueue-ejabberd-")
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
        """Create the account, or give it another password; return its JID."""
        domain = domain or self.domain
        user, host, word = map(binary, (name, domain, password))
        for call in (
            f"try_register, [{user},{host},{word}]",
            f"set_password, [{user},{host},{word}]",
        ):
            answer = await self._call(f"{{ejabberd_auth, {call}}}.")
            if answer == "ok":
                await self._keep()
                return f"{name}@{domain}"
        raise EjabberdError(f"ejabberd made no account {name}: {answer}")

    async def contact(self, owner: str, other: str, group: str, subscription: str) -> None:
        """Put `other` into the owner's roster."""
        names = [*owner.split("@"), *other.split("@"), other, group, subscription]
        words = ",".join(map(binary, names))
        answer = await self._call(f"{{mod_admin_extra, add_rosteritem, [{words}]}}.")
        if answer != "ok":
            raise EjabberdError(f"{other} was not put into the roster of {owner}: {answer}")
        await self._keep()

    async def _keep(self) -> None:
        """Have what it keeps on disk: a kill within seconds would lose the accounts, and all logins with them."""
        answer = await self._call("{mnesia, sync_log, []}.")
        if answer != "ok":
            raise EjabberdError(f"its files were not written: {answer}")

    async def start(self) -> None:
        """Start it again after `stop` or `kill`: same ports, same secret, same accounts."""
        with (self.folder / "output.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *("setpriv", "--pdeathsig", "KILL", "--", "erl", "-noshell"),
                *("-mnesia", "dir", json.dumps(str(self.folder / "spool"))),
                # schedulers that spin while idle take the processor from busy processes
                *("+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"),
                *("-ejabberd", "quiet", "true", "-eval", BOOT),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment(),
                process_group=0,
            )
        said = [await self._answer()]
        while said[-1] != "ready":  # after a kill it first reports which of its files it repairs
            if not said[-1]:
                if any("eaddrinuse" in line for line in said):
                    raise PortTakenError
                raise EjabberdError(f"ejabberd did not start: {said}\n{self._log()}")
            said.append(await self._answer())

    async def stop(self) -> None:
        """Stop it in order: every stream gets its closing tag, the accounts are on disk."""
        if self._process is not None and self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._process.wait()

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    async def _start_on_free_ports(self) -> None:
        for _ in range(ATTEMPTS):
            self.c2s_port, self.component_port = free_ports(2)
            self._configure()
            try:
                return await self.start()
            except PortTakenError:
                await self.kill()
        raise PortTakenError(f"no free loopback port was still free {ATTEMPTS} times")

    async def _leave(self) -> None:
        try:
            await self.kill()  # what it would save is thrown away
        finally:
            if self._temp is not None:
                self._temp.cleanup()
                self._temp = None

    async def _call(self, term: str) -> str:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(term.encode() + b"\n")
        return await self._answer()

    async def _answer(self) -> str:
        """Return the next line of its output; an empty one when it has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(START_TIMEOUT):
            return (await self._process.stdout.readline()).decode().strip()

    def _log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def _environment(self) -> Mapping[str, str]:
        folder = str(self.folder)
        return {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "ERL_LIBS": libraries(),
            "ERL_INETRC": f"{folder}/inetrc",
            "ERL_CRASH_DUMP_BYTES": "0",
            "EJABBERD_CONFIG_PATH": f"{folder}/ejabberd.yml",
            "EJABBERD_LOG_PATH": f"{folder}/ejabberd.log",
            # Debian's place for these belongs to root
            "CONTRIB_MODULES_PATH": f"{folder}/contrib",
            "CONTRIB_MODULES_CONF_DIR": f"{folder}/contrib",
        }

    def _configure(self) -> None:
        """Write the configuration: JSON, which is YAML too."""
        component = {
            # otherwise it would be given the stanzas of every unknown domain as well
            "global_routes": False,
            "hosts": {it: {"password": self.secret} for it in self._components},
        }
        configuration: dict[str, Any] = {
            "hosts": list(self._domains),
            "loglevel": "warning",
            "auth_method": ["internal"],
            "auth_password_format": "plain",
            # No shaper and no starttls: ejabberd's own default, unlike Debian's file.
            "listen": [
                {"port": self.c2s_port, "ip": self.host, "module": "ejabberd_c2s"} | self._c2s,
                {"port": self.component_port, "ip": self.host, "module": "ejabberd_service"}
                | component,
            ],
            "modules": {"mod_disco": {}, "mod_ping": {}, "mod_roster": {}, "mod_offline": {}},
        }
        if self._certificate is not None:
            configuration["certfiles"] = [str(self._certificate)]
        if self._lets_read_rosters:  # XEP-0356
            configuration["modules"]["mod_privilege"] = {"roster": {"get": "all"}}
        if self._rooms:
            configuration["modules"]["mod_muc"] = {"hosts": [self._rooms]}
        if self._archive:
            configuration["modules"]["mod_mam"] = {"default": "always"}
        (self.folder / "ejabberd.yml").write_text(json.dumps(configuration))
        # names are looked up in /etc/hosts, without the helper process that asks a resolver
        (self.folder / "inetrc").write_text("{lookup,[file]}.\n")


def binary(text: str) -> str:
    """Write a text as an Erlang binary, by its bytes, so that nothing needs escaping."""
    return f"<<{','.join(map(str, text.encode()))}>>"


def libraries() -> str:
    """Find Debian's folder of Erlang libraries, whose name carries the architecture."""
    found = sorted(LIBRARIES.glob("*/ejabberd-*/ebin"))
    if not found or shutil.which("erl") is None:
        raise EjabberdError("ejabberd is not installed: `apt-get install ejabberd` does it")
    return str(found[0].parent.parent)
