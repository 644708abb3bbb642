"""Requests that only read, and may have large answers: a few at once, one of each account in turn, as fast as the server reads.

The others wait here, and block nothing: requests that change something pass them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.model import Jid

AT_ONCE: Final = 4
"""Reads in progress at once: the answer of each may be a MiB."""


class Reads:
    """Begins waiting reads, as long as `has_room` is true: the server accepts the answers."""

    def __init__(self, has_room: Callable[[], bool]) -> None:
        self._has_room = has_room
        self._waiting: dict[Jid, deque[tuple[Callable[[], None], Callable[[], None]]]] = {}
        """By account, the next one first."""
        self._under_way = 0
        self._ended = False
        self._going = False

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return sum(map(len, self._waiting.values()))

    def ask(self, account: Jid, begin: Callable[[], None], refuse: Callable[[], None]) -> None:
        """Begin when it is the account's turn; `done` is called when it is over. Refused when the service ends before."""
        if self._ended:
            refuse()
            return
        self._waiting.setdefault(account, deque()).append((begin, refuse))
        self.go_on()

    def done(self) -> None:
        """Take note that one of those that were begun is over."""
        self._under_way -= 1
        self.go_on()

    def go_on(self) -> None:
        """Begin what may begin. What is begun may be over at once."""
        if self._going:
            return
        self._going = True
        try:
            while self._waiting and self._under_way < AT_ONCE and self._has_room():
                account = next(iter(self._waiting))
                mine = self._waiting.pop(account)
                begin, _ = mine.popleft()
                if mine:
                    self._waiting[account] = mine
                self._under_way += 1
                begin()
        finally:
            self._going = False

    def end(self) -> None:
        """Refuse what has not begun, and whatever comes."""
        self._ended = True
        left, self._waiting = self._waiting, {}
        for mine in left.values():
            for _, refuse in mine:
                refuse()
