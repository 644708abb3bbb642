"""Fixtures for tests behind both real servers: `server = behind_both("etl", "bot")`, `program = serving(NODES)`; and people there.

All accounts have the password `secret`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element

import pytest
import pytest_asyncio
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component

from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.worker.worker import Worker
from pubqueue_xeps.xep_0254 import queueing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slixmpp import ClientXMPP

SERVICE: Final = "queue.localhost"


def behind_both(*names: str) -> Any:
    """Return the fixture of a module that has each server in turn, with these accounts."""

    @pytest_asyncio.fixture(scope="module", loop_scope="module", params=[Prosody, Ejabberd])
    async def server(request):
        async with request.param() as started:
            for name in names:
                await started.account(name, "secret")
            yield started

    return server


def serving(configuration: str) -> Any:
    """Return a fixture with the component behind the fixture `server`, in a folder of each test."""

    @pytest.fixture
    async def program(server, tmp_path):
        (tmp_path / "service").mkdir()
        async with component(server, tmp_path / "service", configuration) as started:
            yield started

    return program


def address_of(server: Prosody | Ejabberd) -> dict[str, Any]:
    """Return the arguments by which a client reaches a server."""
    return {"host": server.host, "port": server.c2s_port, "tls": "off"}


def client_of(server: Prosody | Ejabberd, jid: str = "etl@localhost") -> ClientXMPP:
    """Return a client that has yet to log in."""
    return make_client(jid, "secret", **address_of(server))


@asynccontextmanager
async def logged_in(
    server: Prosody | Ejabberd, jid: str = "etl@localhost"
) -> AsyncIterator[ClientXMPP]:
    """Log in for the block."""
    client = client_of(server, jid)
    await login(client)
    try:
        yield client
    finally:
        await logout(client)


@asynccontextmanager
async def publishing(server: Prosody | Ejabberd) -> AsyncIterator[Any]:
    """Log in to publish: `await publish("a", "b", of="job")` publishes two items with these ids and a payload of that name."""
    async with logged_in(server) as client:

        async def publish(*names: str, of: str = "job", node: str = "jobs", **beside: Any) -> None:
            for name in names:
                job = Element(f"{{x}}{of}", nr=name)
                await queueing(client).publish(SERVICE, node, job, id=name, **beside)

        yield publish


def worker_at(
    server: Prosody | Ejabberd,
    jid: str = "bot@localhost/one",
    node: str = "jobs",
    **settings: Any,
) -> Worker:
    """Return a worker that has yet to connect."""
    fixed = {"service": SERVICE, "node": node, "signals": ()}
    return Worker(jid, "secret", **fixed, **address_of(server), **settings)
