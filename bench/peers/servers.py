"""The services, as Debian ships them, with all optional features switched on."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component

from bench.peers.service import service
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.peers.service import Service

THEIRS: Final = "pubsub.localhost"
OURS: Final = "queue.localhost"

IN_PROSODY: Final = """
Component "pubsub.localhost" "pubsub"
    admins = { "ann@localhost" } -- no other account may create nodes
    autocreate_on_publish = true
    expose_publisher = true
"""


class ProsodyWithPubsub(Prosody):
    """Prosody with its own mod_pubsub as a component."""

    def _config(self) -> str:
        return super()._config() + IN_PROSODY


class EjabberdWithPubsub(Ejabberd):
    """ejabberd with its own mod_pubsub; an external component may ask it for rosters (XEP-0356)."""

    def _configure(self) -> None:
        super()._configure()
        path = self.folder / "ejabberd.yml"
        configuration = json.loads(path.read_text())
        configuration["modules"] |= {
            "mod_adhoc": {},
            "mod_caps": {},
            "mod_pubsub": {"plugins": ["flat", "pep"], "last_item_cache": True},
            "mod_privilege": {"roster": {"both": "components"}},
        }
        configuration["acl"] = {"components": {"server": self.component}}
        configuration["access_rules"] = {"components": [{"allow": "components"}]}
        path.write_text(json.dumps(configuration))


@asynccontextmanager
async def services(folder: Path) -> AsyncIterator[dict[str, Service]]:
    """Start all of them; ours is a component of the ejabberd, which lets it see rosters."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        prosody, ejabberd = await asyncio.gather(
            enter(ProsodyWithPubsub()), enter(EjabberdWithPubsub(component=OURS))
        )
        await enter(component(ejabberd, folder, 'auto_creation = "always"'))
        yield {
            "Prosody": await enter(service(prosody, THEIRS)),
            "ejabberd": await enter(service(ejabberd, THEIRS)),
            "pubqueue": await enter(service(ejabberd, OURS, "too")),
        }
