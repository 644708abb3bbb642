"""Admits connections: counts them in total, for each peer and for each user."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog

from pubqueue.engine.connections import REFUSED, Reason
from pubqueue.faces.faults import fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.connections import Connections
    from pubqueue.faces.listener.bounds import Bounds

log = structlog.get_logger(__name__)

QUIET: Final = 60.0
"""Seconds between two log lines about refused or cut connections for the same reason: a stranger can cause thousands."""

NETWORK: Final = 8
"""Bytes of an IPv6 address that identify a peer, because a host with one address usually has the whole network."""


class Admitted(Protocol):
    """A connection that is counted: the address of the client, and the user, if one has logged in."""

    peer: str
    user: str


One = TypeVar("One", bound=Admitted)


class Admission(Generic[One]):
    """Counts connections against the limits. `clock` returns seconds and is monotonic."""

    def __init__(
        self,
        counts: Connections,
        bounds: Bounds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts, self.bounds, self.clock = counts, bounds, clock
        self.connections: set[One] = set()
        """The open connections."""
        self.empty = asyncio.Event()
        """Set while there are no connections."""
        self.empty.set()
        self._peers: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._logged: dict[Reason, tuple[float, int]] = {}

    def refusal(self, peer: str) -> Reason | None:
        """Return the reason why the peer cannot have another connection, or None."""
        if len(self.connections) >= self.bounds.connections:
            return Reason.CONNECTIONS
        if self._peers[network_of(peer)] >= self.bounds.per_peer:
            return Reason.PEER
        return None

    def enter(self, connection: One) -> None:
        """Count a connection for which `refusal` returned None."""
        self._peers[network_of(connection.peer)] += 1
        self.connections.add(connection)
        self.empty.clear()
        self.counts.open = len(self.connections)

    def leave(self, connection: One) -> None:
        """Stop counting a connection. Calling twice does no harm."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self.counts.open = len(self.connections)
        _less(self._peers, network_of(connection.peer))
        if connection.user:
            _less(self._users, connection.user)
        if not self.connections:
            self.empty.set()

    def log_in(self, user: str) -> bool:
        """Count a connection of the user and return true; return false if there are too many."""
        if self._users[user] >= self.bounds.per_user:
            self.ended(Reason.USER, user=user)
            return False
        self._users[user] += 1
        return True

    def failed(self, problem: Exception) -> None:
        """Log an internal error in a connection."""
        log.error("connection.failed", face=self.counts.face, **fault(problem))

    def ended(self, reason: Reason, **facts: object) -> None:
        """Count a connection that was refused or cut, and log the first in each minute."""
        self.counts.ended[reason] += 1
        now = self.clock()
        since, before = self._logged.get(reason, (-QUIET, 0))
        if now - since < QUIET:
            return
        count = self.counts.ended[reason]
        self._logged[reason] = (now, count)
        event = "connection.refused" if reason in REFUSED else "connection.cut"
        log.warning(event, face=self.counts.face, reason=reason, count=count - before, **facts)


def network_of(peer: str) -> str:
    """Return the network that counts as one peer: an IPv4 address, or an IPv6 network."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(address.packed[:NETWORK] + bytes(NETWORK)))


def _less(counter: Counter[str], key: str) -> None:
    """Count down, and remove a key at zero, because strangers choose the number of keys."""
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
