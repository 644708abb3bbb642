"""Whether the process lives, and whether it serves: for container managers and load balancers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.engine.observe import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.replies import Round


class Health:
    """The state of the process, as set by its parts."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.is_connected: Callable[[], bool] = lambda: False
        """Whether the server can be reached now."""
        self.rounds: Callable[[], tuple[Round, ...]] = tuple
        """When the tasks beside the broker last completed a round."""

    def readiness(self, store: str | None) -> Readiness:
        """Return whether the service accepts work; `store` is the store's problem, if it has one."""
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
    """The response of `/readyz`, as JSON."""

    ready: bool
    phase: Phase
    why_not: tuple[str, ...] = ()
