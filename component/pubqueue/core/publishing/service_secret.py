"""A secret of the service, which each instance needs and none shows."""

from __future__ import annotations

from msgspec import Struct


class ServiceSecret(Struct, frozen=True, gc=False):
    """A secret, by its name. It is never shown."""

    name: str
    value: bytes

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"ServiceSecret({self.name!r})"
