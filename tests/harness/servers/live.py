"""The component behind a real XMPP server, as its operator runs it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.processes.program import Program, write_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from harness.servers.ejabberd import Ejabberd

    from pubqueue_demo.prosody import Prosody

JOBS: Final = """
[[node]]
name = "jobs"
queueing = true
owners = ["boss@localhost"]
publishers = ["etl@localhost"]
members = ["ant@localhost", "bee@localhost", "bee0@localhost", "bee1@localhost", "bot@localhost"]
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """The component port of a server, in the form for `write_config`."""

    domain: str
    secret: str
    host: str
    port: int


@asynccontextmanager
async def component(
    server: Prosody | Ejabberd, folder: Path, extra: str = JOBS, *, store: Path | str | None = None
) -> AsyncIterator[Program]:
    """Serve queue.localhost behind `server`; `extra` goes into the configuration.

    Everything of the component is in `folder`, except a `store` that it shares with another.
    """
    async with Program(write_config(folder, listener(server), extra, store=store)) as program:
        yield program


def listener(server: Prosody | Ejabberd) -> Listener:
    """Return where a component attaches to `server`."""
    return Listener(server.component, server.secret, server.host, server.component_port)


@asynccontextmanager
async def two_people(
    server: Prosody | Ejabberd,
    folder: Path,
    person: Callable[[Prosody | Ejabberd, str], AbstractAsyncContextManager[Any]],
) -> AsyncIterator[tuple[Any, Any]]:
    """Serve queue.localhost with no nodes behind `server`, with Ann and Bob logged in by `person`."""
    async with (
        server,
        component(server, folder, ""),
        person(server, "ann") as ann,
        person(server, "bob") as bob,
    ):
        yield ann, bob
