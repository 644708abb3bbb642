"""Ends what has run out, and sets aside a row that cannot be ended: it keeps no other lock from ending.

What fails is halved, as a stale batch is, down to the row that fails alone. A row that cannot even be read the store names
itself. Either is logged, and tried again much later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.core.decision import Expired, Overdue, Refused
from pubqueue.core.model import seconds
from pubqueue.core.queue.expire import Expire, ListOverdue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Millis
    from pubqueue.core.queue.expire import Key

    Do = Callable[[Expire | ListOverdue], Awaitable[Reply]]

log = structlog.get_logger(__name__)

AGAIN: Final = seconds(3600)
"""Until a row that was set aside is tried again."""

MAX_ROWS: Final = 1000
"""Rows that are set aside at most; of more the first are tried again sooner."""

NO_ROWS: Final = Expire(only=frozenset())
"""Asks for the schedules alone: a row that cannot be ended keeps none of them from its turn."""


class SettingAside:
    """The rows that are set aside, each since a moment."""

    def __init__(self, clock: Callable[[], Millis]) -> None:
        self._clock = clock
        self._since: dict[Key, Millis] = {}

    def __bool__(self) -> bool:
        """Return whether there are any: then something is overdue for as long as they are."""
        return bool(self._since)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._since)

    async def end(self, do: Do) -> tuple[str, ...]:
        """End what has run out, and return the names of the schedules that are due.

        `do` has a request done, and returns a refusal only for a fault of ours.
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
