"""The file descriptors of the process: raises their limit at the start, and keeps the last ones from clients.

The store and the stream to the server need descriptors too. When none are left, the listener still accepts: otherwise clients would wait
in the kernel's queue without an answer.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    import socket

log = structlog.get_logger(__name__)

RESERVE: Final = 64
"""Descriptors that are not given to clients."""


def provide(connections: int) -> None:
    """Raise the descriptor limit for this many more connections, as far as allowed; log if it stays too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + 2 * RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if resource.RLIM_INFINITY != soft < needed:
        log.warning("descriptors.few", limit=soft, needed=needed)


def are_few(descriptor: int) -> bool:
    """Return whether few descriptors are left, given the newest one; the system assigns the lowest free number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and descriptor >= soft - RESERVE


class Spare:
    """A spare descriptor, which is freed when there is no other, to accept a client and close its connection."""

    def __init__(self) -> None:
        self._kept: int | None = None
        self.renew()

    def renew(self) -> None:
        """Reserve a descriptor again, if one is free."""
        if self._kept is None:
            try:
                self._kept = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._kept = None

    def turn_away(self, listening: socket.socket) -> bool:
        """Accept a client and close its connection; return whether there was one.

        Raises:
            OSError: no descriptor is free even then.

        """
        self.renew()
        if self._kept is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self.close()
        try:
            client, _ = listening.accept()
        except BlockingIOError:
            return False
        else:
            client.close()
            return True
        finally:
            self.renew()

    def close(self) -> None:
        """Free the descriptor."""
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None
