"""How far the server has read: the service sends itself a stanza now and then, which returns after all before it is done.

Bytes that a socket has accepted may wait for seconds in the buffers of a busy server, megabytes of
them, with every answer after them. So notices to many are written only up to a bound beyond the
last echo. A server that sends no echo is not waited for.
"""

from __future__ import annotations

import re
from typing import Final

EVERY: Final = 65_536
"""Bytes of news from one echo to the next."""

AHEAD: Final = 131_072
"""Bytes of notices to many without an echo, from which on no more are written."""

_NAME: Final = re.compile(r"told-(\d{1,18})")


class FlowProbe:
    """Counts the bytes of news on one stream; a server proves by its first echo that it sends any."""

    def __init__(self) -> None:
        self._written = 0
        self._marked = 0
        self._heard: int | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether so much is under way that an echo has to come first."""
        return self._heard is not None and self._written - self._heard > AHEAD

    def wrote(self, byte_count: int) -> str | None:
        """Count what was written; return the name of an echo that should follow it."""
        self._written += byte_count
        if self._written - self._marked < EVERY:
            return None
        self._marked = self._written
        return f"told-{self._written}"

    def heard(self, name: str) -> None:
        """Take note of what came back."""
        found = _NAME.fullmatch(name)
        if found is not None and int(found[1]) <= self._written:
            self._heard = max(self._heard or 0, int(found[1]))

    def give_up(self) -> None:
        """Wait no more for what is under way."""
        self._heard = None
