"""A connection to a face that is two lists of bytes: what the face writes is kept."""

from __future__ import annotations

import asyncio
from typing import Any, Final

SERVICE: Final = "queue.localhost"


class Wire(asyncio.Transport):
    """What the face writes; `down` once it has given up the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.said = bytearray()
        self.down = False

    def write(self, data: Any) -> None:
        self.said += data

    def abort(self) -> None:
        self.down = True

    close = abort

    def is_closing(self) -> bool:
        return self.down

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take everything at once."""

    def pause_reading(self) -> None:
        """Be asked for nothing: what is fed is fed."""

    resume_reading = pause_reading
