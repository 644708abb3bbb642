"""Observers of the process, called with its phases and with each committed batch; one of them notifies systemd."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from pubqueue.engine.observe import Observer, Observers, Phase
from pubqueue.engine.task import Task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.engine.observe import Traffic


class ProcessObserver(Observer):
    """An observer that is also called with the phases of the process."""

    def ready(self) -> None:
        """Note that the service is ready: each protocol is served that waits for no server, or the server has accepted the component."""

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Note the broker that works from now on, and the traffic of its streams."""

    def at_rest(self, phase: Phase) -> None:
        """Note that no broker works any more, or not yet."""


class ProcessObservers(Observers[ProcessObserver]):
    """Passes the phases of the process on to each observer."""

    def ready(self) -> None:
        """Notify them that the service is ready."""
        self._each(lambda one: one.ready(), self)

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Pass on the broker that works from now on."""
        self._each(lambda one: one.at_work(broker, traffic), self, phase=Phase.AT_WORK.value)

    def at_rest(self, phase: Phase) -> None:
        """Notify them that no broker works any more, or not yet."""
        self._each(lambda one: one.at_rest(phase), self, phase=phase.value)


# Notifies systemd (sd_notify): when the service serves, its state, that it lives, and that it reloads its settings.
#
# A unit of Type=notify counts as started at READY=1, which is sent when the service is ready. With WatchdogSec=, the
# process is killed and restarted when no WATCHDOG=1 comes. A timer of the event loop sends it, twice in the interval,
# so none is sent while the loop hangs; and only while the broker lives and does not stay in one round. If
# NOTIFY_SOCKET is not set, nothing is sent, and nothing is imported for it.

STATUS: Final = {
    Phase.STARTING: "starting: waits for its store and its server",
    Phase.WAITING: "waiting: another instance is at work, this one takes over when it is gone",
    Phase.AT_WORK: "at work",
    Phase.STOPPING: "stopping",
}
"""What `systemctl status` shows."""


class ServiceManager(ProcessObserver):
    """Reports the state of the process to systemd, by `notify`, a function that sends one datagram."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._broker: Broker | None = None
        self._rounds: int | None = None

    def ready(self) -> None:
        """Note that the service is ready: each protocol is served that waits for no server, or the server has accepted the component."""
        self._notify(f"READY=1\nSTATUS={STATUS[Phase.AT_WORK]}")

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:  # noqa: ARG002
        """Note the broker that works from now on: the watchdog checks that it lives."""
        self._broker = broker

    def at_rest(self, phase: Phase) -> None:
        """Note that no broker works any more, or not yet."""
        self._broker = None
        stopping = "STOPPING=1\n" if phase is Phase.STOPPING else ""
        self._notify(f"{stopping}STATUS={STATUS[phase]}")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Make systemd wait during the body: `systemctl reload` returns when the settings are in use."""
        self._notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self._notify("READY=1")

    def lives(self) -> bool:
        """Return whether the broker, if one works, has made progress since the last call, or has nothing to do."""
        if self._broker is None:
            self._rounds = None
            return True
        before, self._rounds = self._rounds, self._broker.rounds
        stands = self._rounds is not None and self._rounds == before
        return not stands and not self._broker.task.done()

    async def feed(self, every: float) -> None:
        """Report at this interval that the process lives, until cancelled."""
        while True:
            if self.lives():
                self._notify("WATCHDOG=1")
            await asyncio.sleep(every)


@asynccontextmanager
async def service_manager(
    environment: Mapping[str, str] = os.environ,
) -> AsyncIterator[ServiceManager]:
    """Report to systemd in the body, if it listens, the state of the process and that it lives."""
    if not environment.get("NOTIFY_SOCKET"):
        yield ServiceManager(lambda _words: None)
        return
    from sdnotify import SystemdNotifier  # noqa: PLC0415  # for those alone who need it

    notifier = SystemdNotifier()
    reporter = ServiceManager(notifier.notify)
    async with AsyncExitStack() as ends:
        if notifier.socket is not None:
            ends.callback(notifier.socket.close)
        if (within := watchdog(environment)) is not None:
            feeding = Task("watchdog", partial(reporter.feed, within / 2))
            feeding.start()
            ends.push_async_callback(feeding.stop)
        yield reporter


def watchdog(environment: Mapping[str, str]) -> float | None:
    """Return within how many seconds this process has to report that it lives; None: there is no watchdog."""
    time_limit = environment.get("WATCHDOG_USEC", "")
    process = environment.get("WATCHDOG_PID", str(os.getpid()))
    if process != str(os.getpid()) or not time_limit.isascii() or not time_limit.isdigit():
        return None
    return int(time_limit) / 1e6 or None
