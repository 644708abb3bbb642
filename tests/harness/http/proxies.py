"""Debian's nginx and Caddy, set up by the blocks of docs/operations/proxies.md, with other ports and a certificate of this test."""

from __future__ import annotations

import os
import shutil
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
from harness.documents.documented import ROOT, blocks_of
from harness.patience import TIMEOUT, until
from harness.servers.tls import certify

from pubqueue.loopback import free_ports
from pubqueue_demo.process import spawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from pubqueue_demo.process import Child

PAGE: Final = ROOT / "docs" / "operations" / "proxies.md"
NAME: Final = "queue.example.org"

OF_NGINX: Final = """\
daemon off;
{user}
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{block}
}}
"""
"""The configuration around a site on Debian, but in a folder of its own."""

NGINX: Final = shutil.which("nginx") or "/usr/sbin/nginx"
CADDY: Final = shutil.which("caddy") or "/usr/bin/caddy"


class Proxy:
    """A proxy that runs: its port, and the certificate that its clients trust."""

    def __init__(self, port: int, certificate: Path) -> None:
        self.port, self.certificate = port, certificate

    @property
    def place(self) -> str:
        """Its address, by its name."""
        return f"https://{NAME}:{self.port}"

    @property
    def trusted(self) -> ssl.SSLContext:
        """The certificates that its clients trust."""
        return ssl.create_default_context(cafile=self.certificate)

    @asynccontextmanager
    async def session(self, host: str = "127.0.0.1") -> AsyncIterator[aiohttp.ClientSession]:
        """Yield the proxy for requests, from an address of the loopback interface."""
        connector = aiohttp.TCPConnector(
            ssl=self.trusted, resolver=_ToHere(), local_addr=(host, 0), force_close=False
        )
        timeout = aiohttp.ClientTimeout(TIMEOUT)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield session


class _ToHere(aiohttp.abc.AbstractResolver):
    """Resolves every name to this machine."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, object]]:  # type: ignore[override]
        return [
            {
                "hostname": host,
                "host": "127.0.0.1",
                "port": port,
                "family": 2,
                "proto": 0,
                "flags": 0,
            }
        ]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def nginx(folder: Path, places: Mapping[str, str]) -> AsyncIterator[Proxy]:
    """Run nginx; `places` are the actual places of the services on the page."""
    async with _prepared(folder, places, "nginx") as (site, proxy):
        block = site.replace("listen 443 ssl", f"listen 127.0.0.1:{proxy.port} ssl")
        user = "user root;" if os.getuid() == 0 else ""
        config = folder / "nginx.conf"
        config.write_text(OF_NGINX.format(user=user, folder=folder, block=block))
        async with _running("nginx", [NGINX, "-c", str(config), "-e", "stderr"], folder, proxy):
            yield proxy


@asynccontextmanager
async def caddy(folder: Path, places: Mapping[str, str]) -> AsyncIterator[Proxy]:
    """Run Caddy; `places` are the actual places of the services on the page."""
    async with _prepared(folder, places, "caddy") as (site, proxy):
        block = site.replace(f"{NAME} {{", f"{NAME}:{proxy.port} {{\n    bind 127.0.0.1", 1)
        config = folder / "Caddyfile"
        config.write_text("{\n    admin off\n    auto_https off\n}\n" + block)
        words = [CADDY, "run", "--adapter", "caddyfile", "--config", str(config)]
        async with _running("caddy", words, folder, proxy):
            yield proxy


PROXIES: Final = {"nginx": nginx, "caddy": caddy}


@asynccontextmanager
async def _prepared(
    folder: Path, places: Mapping[str, str], language: str
) -> AsyncIterator[tuple[str, Proxy]]:
    (port,) = free_ports(1)
    key, certificate = await certify(folder, NAME)
    (block,) = [one.text for one in blocks_of(PAGE) if one.language == language]
    changes = dict(places) | {
        "/etc/ssl/private/queue.key": str(key),
        "/etc/ssl/certs/queue.crt": str(certificate),
    }
    for documented, real in changes.items():
        assert documented in block, f"{PAGE.name} has no {documented}"
        block = block.replace(documented, real)
    yield block, Proxy(port, certificate)


@asynccontextmanager
async def _running(name: str, words: list[str], folder: Path, proxy: Proxy) -> AsyncIterator[Child]:
    environment = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    child = await spawn(
        words, name=name, log=folder / "log", env=environment, cwd=folder, read=False
    )
    try:
        await until(lambda: _answers(child, proxy), every=0.05)
        yield child
    finally:
        await child.stop()


async def _answers(child: Child, proxy: Proxy) -> bool:
    assert child.running, child.log.read_text()
    async with proxy.session() as session:
        try:
            async with session.get(f"{proxy.place}/nowhere"):
                return True
        except aiohttp.ClientConnectorError:
            return False
