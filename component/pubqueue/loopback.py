"""Loopback ports for programs that tests start. No two processes have the same one, also while no server listens there."""

from __future__ import annotations

import random
import socket
import sys
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK: Final = 200
"""Ports of a process, which it gives out in turn."""
LOWEST: Final = 10_000
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Return loopback ports that are free, from below the range of outgoing connections.

    Inside that range, a client that retries a port without a listener may get this port as its own and connect to
    itself; then the server cannot start. On Linux they are this process's until it ends: between this call and the start of
    a server, or while that is down, no other process gets them by this function.

    Raises:
        RuntimeError: none is free.

    """
    found: list[int] = []
    for port in islice(_ports(), BLOCK):
        with socket.socket() as probe:
            # like a server, so that the port of a server that has just ended counts as free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("No loopback port is free.")


@cache
def _ports() -> Iterator[int]:
    """Return the ports of a block that no other process has, again and again."""
    first_outgoing = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 32_768
    blocks = range(
        max(1024, min(LOWEST, first_outgoing - 5_000)), first_outgoing - BLOCK + 1, BLOCK
    )
    # not seeded: programs with the same seed would all try the same blocks
    for first in random.SystemRandom().sample(blocks, len(blocks)):
        if _claim(first):
            return cycle(range(first, first + BLOCK))
    raise RuntimeError("No block of loopback ports is free.")


def _claim(block: int) -> bool:
    """Return whether the block is this process's from now on, until it ends."""
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0pubqueue-ports-{block}")  # no file, and gone with the process
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True
