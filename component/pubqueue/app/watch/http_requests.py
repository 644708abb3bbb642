"""Requests of HTTP that were answered, by route and status, and how many wait for a message."""

from __future__ import annotations

from msgspec import Struct, field


class HttpRequests(Struct, gc=False):
    """Counts answers. Profiles and routes are words of the program, so the labels are bounded."""

    answered: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """By profile, route and status."""
    waiting: int = 0

    def count(self, profile: str, route: str, status: int) -> None:
        """Count an answer."""
        key = profile, route, status
        self.answered[key] = self.answered.get(key, 0) + 1
