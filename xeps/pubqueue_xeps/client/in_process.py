"""Servers in this process, for tests: a client that connects to their address reaches them without a socket.

A server is registered under a host and a port. Until it is removed, a `Client` that would connect there is connected
to it. Nothing else changes for the client: it opens its stream, logs in and is disconnected as over TCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    Accept = Callable[[asyncio.Protocol], None]

SERVERS: Final[dict[tuple[str, int], Accept]] = {}
"""By host and port: a function that accepts a connection. It is called in the client's running event loop with the
client's protocol, and calls its `connection_made`."""
