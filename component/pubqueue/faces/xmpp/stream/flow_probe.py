"""Measures how far the server has read: the service sends itself stanzas, which return after the server has handled everything before them.

A busy server may hold megabytes of accepted data in its buffers for seconds, and every answer waits after
them. So only a limited number of bytes of notices is sent beyond the last echo. If a server never sends an echo, there is no limit.
"""

from __future__ import annotations

import re
from typing import Final

EVERY: Final = 65_536
"""Bytes of notices from one echo to the next."""

AHEAD: Final = 131_072
"""Bytes of notices to many without an echo above which writing pauses."""

_NAME: Final = re.compile(r"told-(\d{1,18})")


class FlowProbe:
    """Counts the bytes of notices on one stream. Before the first echo, it is not known whether the server sends any."""

    def __init__(self) -> None:
        self._written = 0
        self._marked = 0
        self._back: int | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether so many bytes are in transit that writing has to wait for an echo."""
        return self._back is not None and self._written - self._back > AHEAD

    def wrote(self, byte_count: int) -> str | None:
        """Count written bytes; return the name of an echo that should follow them, if one is due."""
        self._written += byte_count
        if self._written - self._marked < EVERY:
            return None
        self._marked = self._written
        return f"told-{self._written}"

    def came_back(self, name: str) -> None:
        """Note an echo."""
        found = _NAME.fullmatch(name)
        if found is not None and int(found[1]) <= self._written:
            self._back = max(self._back or 0, int(found[1]))

    def give_up(self) -> None:
        """Stop waiting for the open echoes."""
        self._back = None
