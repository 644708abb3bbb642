"""Runs read requests, whose answers may be large: a few at once, accounts in turn, as fast as the server accepts the answers.

Waiting reads do not block requests that change something.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.entities import Jid

AT_ONCE: Final = 4
"""Reads in progress at once: the answer of each may be a MiB."""


class Reads:
    """Begins waiting reads while `has_room` returns true, which means that the server accepts the answers."""

    def __init__(self, has_room: Callable[[], bool]) -> None:
        self._has_room = has_room
        self._waiting: dict[Jid, deque[tuple[Callable[[], None], Callable[[], None]]]] = {}
        """Waiting reads by account, the account whose turn is next first."""
        self._under_way = 0
        self._ended = False
        self._going = False

    @property
    def waiting(self) -> int:
        """The number of reads that wait for their turn."""
        return sum(map(len, self._waiting.values()))

    def ask(self, account: Jid, begin: Callable[[], None], refuse: Callable[[], None]) -> None:
        """Call `begin` on the account's turn, or `refuse` if the service ends first. The caller calls `done` after the read."""
        if self._ended:
            refuse()
            return
        self._waiting.setdefault(account, deque()).append((begin, refuse))
        self.go_on()

    def done(self) -> None:
        """Note that a read has ended."""
        self._under_way -= 1
        self.go_on()

    def go_on(self) -> None:
        """Begin the next reads, up to the limit. A read may end at once."""
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
        """Refuse waiting and later reads."""
        self._ended = True
        left, self._waiting = self._waiting, {}
        for mine in left.values():
            for _, refuse in mine:
                refuse()
