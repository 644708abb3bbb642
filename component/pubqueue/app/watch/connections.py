"""The connections of the clients of one face: how many are open, and how many were refused or cut, by reason."""

from __future__ import annotations

from enum import StrEnum, unique

from msgspec import Struct, field


@unique
class Reason(StrEnum):
    """The reason why a connection is refused or closed."""

    CONNECTIONS = "connections"
    """The face has the maximum number."""
    PEER = "peer"
    """The address has the maximum number."""
    USER = "user"
    """The user has the maximum number."""
    DESCRIPTORS = "descriptors"
    """The process has hardly any file descriptors left."""
    HANDSHAKE = "handshake"
    """TLS was not negotiated, or not in time."""
    LOGIN = "login"
    """No user has logged in in time."""
    REQUEST = "request"
    """A request did not arrive completely in time."""
    IDLE = "idle"
    """It was silent for too long."""
    UNREAD = "unread"
    """Its client has not read its messages in time, or too many wait."""
    FAULT = "fault"
    """Serving it met a fault of ours, which the log shows."""


REFUSED = frozenset(
    {
        *(Reason.CONNECTIONS, Reason.PEER, Reason.USER),
        *(Reason.DESCRIPTORS, Reason.HANDSHAKE, Reason.LOGIN),
    }
)
"""Reasons for which a connection is refused before anything is done for it; for the others it is closed."""


class Connections(Struct, gc=False):
    """Counts the connections of a face, which is a word of the program: `http`, `stomp`."""

    face: str
    open: int = 0
    ended: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    """Those that we have refused or closed, by reason."""
    certificate_ends: float | None = None
    """When the certificate that new clients get expires, in seconds since 1970; None: there is none."""
