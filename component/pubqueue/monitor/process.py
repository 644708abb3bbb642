"""Observers of the process: told how far it is, beside what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.watch.observers import Observer, Observers
from pubqueue.app.watch.watching import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.app.broker import Broker
    from pubqueue.app.watch.watching import Traffic


class ProcessObserver(Observer):
    """An observer that is told, too, how far the process is."""

    def ready(self) -> None:
        """Take note that the server has accepted the component."""

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Take note of who does the work from now on, and of what goes over its streams."""

    def at_rest(self, phase: Phase) -> None:
        """Take note that nobody does the work any more, or not yet."""


class ProcessObservers(Observers[ProcessObserver]):
    """Tells each of them how far the process is."""

    def ready(self) -> None:
        """Tell them that the server has accepted the component."""
        self._each(lambda one: one.ready())

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Tell them who does the work from now on."""
        self._each(lambda one: one.at_work(broker, traffic), phase=Phase.AT_WORK.value)

    def at_rest(self, phase: Phase) -> None:
        """Tell them that nobody does the work any more, or not yet."""
        self._each(lambda one: one.at_rest(phase), phase=phase.value)
