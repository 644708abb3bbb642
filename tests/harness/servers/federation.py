"""Two servers that federate on loopback, by dialback (XEP-0220), without TLS; a name server of their own finds them.

A server is `prosody.example` or `ejabberd.example`, and its component `queue.` before that. Names are served by
dnsmasq, so neither files of the machine nor fixed ports are needed.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from harness.documents.documented import blocks
from harness.patience import TIMEOUT
from harness.servers.ejabberd import Ejabberd

from pubqueue.loopback import free_ports
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    Server = Prosody | Ejabberd

PAGE = "docs/how-to/federation.md"

DIALBACK = """
s2s_ports = {{ {s2s} }}
s2s_interfaces = {{ "127.0.0.1" }}
s2s_require_encryption = false
s2s_secure_auth = false
unbound = {{
    resolvconf = false, hoststxt = false, forward = "127.0.0.1@{names}",
    options = {{ ["do-not-query-localhost:"] = "no" }},
}}
"""


@asynccontextmanager
async def name_server(places: dict[str, int]) -> AsyncIterator[int]:
    """Serve names by dnsmasq: each is served at its port of localhost. Yields the port of DNS.

    ejabberd looks up SRV records here, and addresses by the machine's own resolver, which knows localhost.
    """
    (port,) = free_ports(1)
    records = [f"--srv-host=_xmpp-server._tcp.{name},localhost,{at}" for name, at in places.items()]
    process = await asyncio.create_subprocess_exec(
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("/usr/sbin/dnsmasq", "--keep-in-foreground", f"--port={port}", "--conf-file=/dev/null"),
        *("--listen-address=127.0.0.1", "--bind-interfaces", "--no-resolv", "--no-hosts"),
        *("--user=root", "--log-facility=-", "--pid-file"),
        "--address=/localhost/127.0.0.1",
        *records,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(TIMEOUT):
            while b"started" not in (line := await process.stderr.readline()):
                assert line, "dnsmasq did not start"
        yield port
    finally:
        process.kill()
        await process.wait()


class FederatedProsody(Prosody):
    """A Prosody that talks to other servers."""

    domain = "prosody.example"

    def __init__(self, s2s: int, names: int, **more: Any) -> None:
        super().__init__(component=f"queue.{self.domain}", modules=("dialback",), **more)
        self._s2s = s2s
        self._names = names

    def _config(self) -> str:
        closed = 'modules_disabled = { "s2s", "s2s_auth_certs"'
        config = super()._config()
        assert closed in config
        opened = 'modules_disabled = { "s2s_auth_certs"'
        place = DIALBACK.format(s2s=self._s2s, names=self._names)
        return config.replace(closed, place + opened)


class FederatedEjabberd(Ejabberd):
    """An ejabberd that talks to other servers, with what the documentation sets for that."""

    domain = "ejabberd.example"

    def __init__(self, s2s: int, names: int, **more: Any) -> None:
        super().__init__(component=f"queue.{self.domain}", **more)
        self._s2s = s2s
        self._names = names

    def _configure(self) -> None:
        super()._configure()
        file = self.folder / "ejabberd.yml"
        config = json.loads(file.read_text())
        listener = {"port": self._s2s, "ip": self.host, "module": "ejabberd_s2s_in"}
        config["listen"].append(listener)
        config["modules"]["mod_s2s_dialback"] = {}
        (setting,) = [block.text for block in blocks("yaml") if block.page == PAGE]
        key, _, seconds = setting.strip().partition(": ")
        config |= {"s2s_use_starttls": False, key: int(seconds)}
        file.write_text(json.dumps(config))
        place = f"{{nameserver, {{127,0,0,1}}, {self._names}}}."
        words = f'{{resolv_conf, ""}}.\n{place}\n{{lookup,[dns]}}.\n'
        (self.folder / "inetrc").write_text(words)


@asynccontextmanager
async def federation() -> AsyncIterator[tuple[FederatedProsody, FederatedEjabberd]]:
    """Run both servers; each serves its domain and a component, and finds the other."""
    left, right = free_ports(2)
    domains = {FederatedProsody.domain: left, FederatedEjabberd.domain: right}
    places = domains | {f"queue.{domain}": port for domain, port in domains.items()}
    async with (
        name_server(places) as names,
        FederatedProsody(left, names) as prosody,
        FederatedEjabberd(right, names) as ejabberd,
    ):
        yield prosody, ejabberd
