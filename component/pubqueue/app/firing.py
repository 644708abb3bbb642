"""Gives schedules their turns, and tells an operator what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from pubqueue.core.decision import Refused
from pubqueue.core.schedules.fire import FireSchedule, ListDue
from pubqueue.core.schedules.model import DueNames, Fired

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pubqueue.app.broker import Broker
    from pubqueue.core.decision import Reply

log = structlog.get_logger(__name__)


class Firing:
    """The schedules whose turn it is. Each has a turn of its own: what one meets does not keep the others from theirs."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()

    def look(self, broker: Broker) -> None:
        """Ask which have something to do: in the batch of what is asked next, so that it costs a statement alone."""
        broker.submit(ListDue(), self._found)

    def _found(self, reply: Reply) -> None:
        self._names = reply.names if isinstance(reply, DueNames) else ()

    async def fire(self, do: Callable[[FireSchedule], Awaitable[Reply]]) -> None:
        """Give each of those that were found its turn, one after the other."""
        names, self._names = self._names, ()
        for name in names:
            _tell(await do(FireSchedule(name)))


def _tell(reply: Reply) -> None:
    if isinstance(reply, Refused) or not isinstance(reply, Fired):
        return  # told where it failed
    if reply.skipped:
        log.warning("schedule.missed", schedule=reply.name)
    if reply.id is not None:
        log.info("schedule.fired", schedule=reply.name, item=reply.id)
    if reply.error and reply.first:
        log.warning("schedule.refused", schedule=reply.name, why=reply.error)
