"""The configured settings of the face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.faces.stomp.codec import VERSIONS, FrameBounds

if TYPE_CHECKING:
    from pubqueue.faces.stomp.codec import Version


class Terms(Struct, frozen=True, kw_only=True):
    """The settings of each connection."""

    versions: tuple[Version, ...] = tuple(VERSIONS.values())
    hosts: tuple[str, ...] = ()
    """Names that a header `host` may have; any, if there are none."""
    heart_beat: int = 10_000
    """Milliseconds, in both directions."""
    max_subscriptions: int = 100
    late_is_error: bool = False
    bounds: FrameBounds = FrameBounds()
    """For frames of clients that have logged in."""
