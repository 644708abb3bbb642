"""A stored bundle of notices for the connections of one instance."""

from __future__ import annotations

from msgspec import Struct


class Forwarded(Struct, frozen=True, gc=False):
    """The notices as bytes. The mark begins with the number of the receiving instance: see `core.forwarding.forward`."""

    mark: str
    notices: bytes
