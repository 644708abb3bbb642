"""What a forked process must not use: a connection of its parent, who would read half of what is answered to the child."""

from __future__ import annotations

import os


class Process:
    """The process in which something was opened."""

    __slots__ = ("_id",)

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether that is this one."""
        return self._id == os.getpid()

    def check(self) -> None:
        """Raise RuntimeError in a process that was forked since."""
        if not self.is_ours:
            raise RuntimeError(
                "The publisher was opened before this process was forked: open one of its own here."
            )
