"""Ends expired rows, and sets aside a row that cannot be ended, so that it does not keep other locks from ending.

A set of rows that fails is halved, like a stale batch, down to the row that fails alone. The store itself names a row that
cannot even be read. Either is logged, and retried much later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.model.decision import Expired, Overdue, Refused
from pubqueue.model.entities import seconds
from pubqueue.rules.expire import Expire, ListOverdue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Millis
    from pubqueue.rules.expire import Key

    Do = Callable[[Expire | ListOverdue], Awaitable[Reply]]

log = structlog.get_logger(__name__)

AGAIN: Final = seconds(3600)
"""The time until a row that was set aside is retried."""

MAX_ROWS: Final = 1000
"""The maximum number of rows set aside; with more, the first are retried sooner."""

NO_ROWS: Final = Expire(only=frozenset())
"""Asks for the schedules alone: a row that cannot be ended does not prevent their turns."""


class SettingAside:
    """The rows that are set aside, each with the time since when."""

    def __init__(self, clock: Callable[[], Millis]) -> None:
        self._clock = clock
        self._since: dict[Key, Millis] = {}

    def __bool__(self) -> bool:
        """Return whether there are any: while there are, something is overdue."""
        return bool(self._since)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._since)

    async def end(self, do: Do) -> tuple[str, ...]:
        """End expired rows, and return the names of the schedules that are due.

        `do` submits a request, and returns a refusal only for a fault of ours.
        """
        now = self._clock()
        self._since = {key: at for key, at in self._since.items() if abs(now - at) < AGAIN}
        aside = frozenset(self._since)
        reply = await do(Expire(aside))
        if isinstance(reply, Refused):
            overdue = await do(ListOverdue())
            if isinstance(overdue, Overdue):
                await self._end_these([key for key in overdue.keys if key not in aside], do)
            reply = await do(NO_ROWS)
        if not isinstance(reply, Expired):
            return ()
        for key in reply.unread:
            self._set_aside(key)
        return reply.schedules

    async def _end_these(self, keys: Sequence[Key], do: Do) -> None:
        if not keys or not isinstance(await do(Expire(only=frozenset(keys))), Refused):
            return
        if len(keys) == 1:
            self._set_aside(keys[0])
            return
        half = len(keys) // 2
        await self._end_these(keys[:half], do)
        await self._end_these(keys[half:], do)

    def _set_aside(self, key: Key) -> None:
        kind, place, name = key
        log.error("overdue.set_aside", kind=kind, of=place, name=name)
        self._since[key] = self._clock()
        while len(self._since) > MAX_ROWS:
            del self._since[next(iter(self._since))]
