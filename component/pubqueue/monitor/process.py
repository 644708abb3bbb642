"""Observers of the process: called with its phases, and with each committed batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from pubqueue.engine.observe import Observer, Observers, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.engine.observe import Traffic


class ProcessObserver(Observer):
    """An observer that is also called with the phases of the process."""

    def ready(self) -> None:
        """Note that the server has accepted the component."""

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Note the broker that works from now on, and the traffic of its streams."""

    def at_rest(self, phase: Phase) -> None:
        """Note that no broker works any more, or not yet."""


class ProcessObservers(Observers[ProcessObserver]):
    """Passes the phases of the process on to each observer."""

    def ready(self) -> None:
        """Notify them that the server has accepted the component."""
        self._each(lambda one: one.ready(), self)

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Pass on the broker that works from now on."""
        self._each(lambda one: one.at_work(broker, traffic), self, phase=Phase.AT_WORK.value)

    def at_rest(self, phase: Phase) -> None:
        """Notify them that no broker works any more, or not yet."""
        self._each(lambda one: one.at_rest(phase), self, phase=phase.value)


log = structlog.get_logger(__name__)
