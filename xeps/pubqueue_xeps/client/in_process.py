"""Servers that are in this process, for tests: who connects to their address gets to them without a socket.

A server is entered under a host and a port; until it is taken out again, a `Client` that would connect there is given
to it instead. Nothing else changes for the client: it opens its stream, logs in and is cut off as over TCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    Accept = Callable[[asyncio.Protocol], None]

SERVERS: Final[dict[tuple[str, int], Accept]] = {}
"""By host and port: what takes a connection. It is called in the client's event loop, which runs, with the client's
protocol, and calls its `connection_made`."""
