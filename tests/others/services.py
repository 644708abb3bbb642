"""The pubsub services that Prosody and ejabberd bring along, and this one, each with an owner and a reader at hand."""

from __future__ import annotations

import json
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.ejabberd import Ejabberd
from harness.live import component
from harness.session import SERVICE, session

from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.session import Session

THEIRS: Final = "pubsub.localhost"

OWN: Final = f"""
Component "{THEIRS}" "pubsub"
    admins = {{ "boss@localhost" }}
    modules_enabled = {{ "version" }}
"""


class PubsubProsody(Prosody):
    """A Prosody with its own mod_pubsub, where boss@localhost may create nodes."""

    def _config(self) -> str:
        return super()._config() + OWN


class PubsubEjabberd(Ejabberd):
    """An ejabberd with its own mod_pubsub, with the plugin that its documentation recommends."""

    def _configure(self) -> None:
        super()._configure()
        path = self.folder / "ejabberd.yml"
        told = json.loads(path.read_text())
        told["modules"] |= {"mod_pubsub": {"plugins": ["flat"]}, "mod_version": {}}
        path.write_text(json.dumps(told))


@asynccontextmanager
async def people(
    server: Prosody | Ejabberd, service: str
) -> AsyncIterator[tuple[Session, Session]]:
    """Log an owner and a reader in, who speak with the service."""
    for name in ("boss", "bee"):
        await server.account(name, "secret")
    async with (
        session(server, "boss@localhost/desk", service) as boss,
        session(server, "bee@localhost/x", service) as bee,
    ):
        yield boss, bee


@asynccontextmanager
async def prosody() -> AsyncIterator[tuple[Session, Session]]:
    async with PubsubProsody() as server, people(server, THEIRS) as both:
        yield both


@asynccontextmanager
async def ejabberd() -> AsyncIterator[tuple[Session, Session]]:
    async with PubsubEjabberd() as server, people(server, THEIRS) as both:
        yield both


@asynccontextmanager
async def pubqueue() -> AsyncIterator[tuple[Session, Session]]:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Prosody() as server,
            component(server, Path(folder), ""),
            people(server, SERVICE) as both,
        ):
            yield both
