"""Guards against using a parent process's connection after a fork, because both would read from it."""

from __future__ import annotations

import os


class Process:
    """The process in which something was opened."""

    __slots__ = ("_id",)

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether it is the current process."""
        return self._id == os.getpid()

    def check(self) -> None:
        """Raise RuntimeError if this process was forked after that."""
        if not self.is_ours:
            raise RuntimeError(
                "The publisher was opened before this process was forked: open one of its own here."
            )
