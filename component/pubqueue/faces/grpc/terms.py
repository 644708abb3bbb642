"""The settings for callers over gRPC."""

from __future__ import annotations

from msgspec import Struct


class Terms(Struct, frozen=True):
    """The settings of all calls."""

    anonymous: str = ""
    """The user whose account callers without credentials have; empty: they are refused."""
    bridge: bool = True
    """Whether the project `xmpp` has the nodes of other protocols."""
    push_to: tuple[str, ...] = ()
    """Where messages may be pushed to."""
    streams: int = 10_000
    streams_per_account: int = 5_000
    """Streams that may be open at a time: of all accounts, and of one."""
