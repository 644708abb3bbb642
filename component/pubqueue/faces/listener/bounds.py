"""The limits of a listener: the number of connections, and their timeouts."""

from __future__ import annotations

from msgspec import Struct


class Bounds(Struct, frozen=True, kw_only=True):
    """The limits of a listener. Times are in seconds; 0 means no limit."""

    connections: int = 2_000
    """Connections in total."""
    per_peer: int = 500
    """Connections from one IPv4 address, or from one /64 network of IPv6."""
    per_user: int = 100
    """Connections of one user, after login."""
    handshake: float = 10.0
    """Until the TLS handshake is complete."""
    login: float = 10.0
    """From then until a user has logged in."""
    idle: float = 0.0
    """Without a byte from the client. A face can set another time for a connection."""
    unread: float = 60.0
    """Until a client has read the data that waits to be sent to it."""
    unsent: int = 512 * 1024
    """Bytes that may wait to be sent to one client. A single larger message can be sent when nothing waits."""
