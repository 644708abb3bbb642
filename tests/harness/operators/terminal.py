"""A program in a terminal: keys are typed, and the screen is read."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pexpect
import pyte
from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDE: Final = 150
HIGH: Final = 60


class Terminal:
    """Typed keys go to the program; its output is on the screen."""

    def __init__(self, child: pexpect.spawn) -> None:
        self._child = child
        self._screen = pyte.Screen(WIDE, HIGH)
        self._stream = pyte.Stream(self._screen)

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def type(self, line: str) -> None:
        """Type a line, and the key that ends it."""
        self._child.send(line + "\r")

    def press(self, key: str) -> None:
        """Press a key, and no more."""
        self._child.send(key)

    def ended(self) -> int:
        """Read on until the program has ended; return its status."""
        self._child.expect(pexpect.EOF, timeout=TIMEOUT)
        self._child.wait()
        assert self._child.exitstatus is not None
        return self._child.exitstatus

    def until(self, *words: str) -> str:
        """Return the screen as soon as it shows all of this."""
        end = time.monotonic() + TIMEOUT
        while not all(word in self.text for word in words):
            left = end - time.monotonic()
            assert left > 0, f"nowhere stands {words}:\n{self.text}"
            try:
                self._stream.feed(self._child.read_nonblocking(65_536, timeout=left))
            except (pexpect.EOF, pexpect.TIMEOUT) as problem:
                raise AssertionError(f"nowhere stands {words}:\n{self.text}") from problem
        return self.text


@contextmanager
def terminal(command: str, home: Path) -> Iterator[Terminal]:
    """Run a program whose files are all below `home`; end it when the block does."""
    places = {f"XDG_{what}_HOME": str(home / what) for what in ("CONFIG", "DATA", "CACHE")}
    words = {"HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8", **places}
    child = pexpect.spawn(
        command, env={**os.environ, **words}, dimensions=(HIGH, WIDE), encoding="utf-8"
    )
    try:
        yield Terminal(child)
    finally:
        child.close(force=True)
