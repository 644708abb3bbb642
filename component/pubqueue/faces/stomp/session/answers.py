"""The pending answers of a client: each RECEIPT is sent when its frame is done, in the order of the frames.

A frame that cannot be done has an ERROR in its place, and nothing is answered after it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pubqueue.faces.stomp.codec import Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.stomp.problems import Problem


class Owed:
    """The answer to one frame. `receipt` is its header, if it has one; `size` is how many bytes it keeps here."""

    __slots__ = ("headers", "is_done", "problem", "receipt", "size", "then")

    def __init__(self, receipt: str | None, size: int) -> None:
        self.receipt, self.size = receipt, size
        self.is_done = False
        self.headers: dict[str, str] | None = None
        """Further headers of the RECEIPT."""
        self.problem: Problem | None = None
        self.then: Callable[[], None] | None = None
        """Called when the RECEIPT has been sent."""


class Answers:
    """The pending answers of one client. `send` gets each RECEIPT, and `fail` the first problem with the receipt of its frame."""

    def __init__(
        self, send: Callable[[Frame], None], fail: Callable[[Problem, str | None], None]
    ) -> None:
        self._send, self._fail = send, fail
        self._owed: deque[Owed] = deque()
        self.size = 0
        self.is_over = False
        """Whether there was a problem: nothing more is answered."""

    def __len__(self) -> int:
        """Return how many frames wait for their answers."""
        return len(self._owed)

    def add(self, receipt: str | None, size: int) -> Owed:
        """Note a frame that has arrived."""
        owed = Owed(receipt, size)
        self._owed.append(owed)
        self.size += size
        return owed

    def done(self, owed: Owed, headers: dict[str, str] | None = None) -> None:
        """Note that a frame is done, and send all answers that can be sent."""
        owed.is_done, owed.headers = True, headers
        self._answer()

    def refuse(self, owed: Owed, problem: Problem) -> None:
        """Note that a frame cannot be done."""
        owed.is_done, owed.problem = True, problem
        self._answer()

    def _answer(self) -> None:
        while self._owed and self._owed[0].is_done and not self.is_over:
            owed = self._owed.popleft()
            self.size -= owed.size
            if owed.problem is not None:
                self.is_over = True
                self._fail(owed.problem, owed.receipt)
                return
            if owed.receipt is not None:
                headers = {"receipt-id": owed.receipt, **(owed.headers or {})}
                self._send(Frame("RECEIPT", headers))
            if owed.then is not None:
                owed.then()
