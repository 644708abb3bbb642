"""A client that tries to log in to a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import slixmpp
from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from harness.servers.ejabberd import Ejabberd

    from pubqueue_demo.prosody import Prosody


async def log_in(server: Prosody | Ejabberd, jid: str, password: str) -> str:
    """Return the name of the event that ended the attempt."""
    client = slixmpp.ClientXMPP(jid, password)
    client.enable_starttls = client.enable_direct_tls = False
    client.enable_plaintext = client.plugin["feature_mechanisms"].unencrypted_scram = True
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    for event in ("session_start", "failed_all_auth", "connection_failed"):
        client.add_event_handler(
            event, lambda _, event=event: outcome.done() or outcome.set_result(event)
        )
    client.connect(server.host, server.c2s_port)
    async with asyncio.timeout(TIMEOUT):
        result = await outcome
        await client.disconnect()
    return result
