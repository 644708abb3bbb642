"""Whether the process lives, and whether it serves: what a container manager and a load balancer ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.app.watch.watching import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.reading.summaries import Round


class Health:
    """The state of the process, as set by its parts."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.is_connected: Callable[[], bool] = lambda: False
        """Whether the server can be spoken to now."""
        self.rounds: Callable[[], tuple[Round, ...]] = tuple
        """When the tasks beside the broker last completed a round."""

    def readiness(self, store: str | None) -> Readiness:
        """Return whether work is taken; `store` is what is wrong with the store, if anything is."""
        whys: list[str] = []
        if self.phase is not Phase.AT_WORK:
            whys.append(f"phase: {self.phase}")
        elif not self.is_connected():
            whys.append("server: not connected")
        if store is not None:
            whys.append(f"store: {store}")
        late = (one for one in self.rounds() if one.late)
        whys += [f"{one.task}: not come round for {one.ago:.0f} s" for one in late]
        return Readiness(not whys, self.phase, tuple(whys))


class Readiness(Struct, frozen=True):
    """The answer of `/readyz`, as JSON."""

    ready: bool
    phase: Phase
    why_not: tuple[str, ...] = ()
