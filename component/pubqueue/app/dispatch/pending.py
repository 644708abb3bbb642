"""Deliveries that the next batches have to make in addition to items of the nodes that they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.app.store.listings import Place
    from pubqueue.model.entities import NodeName


class PendingDispatch:
    """Remembers between batches which nodes are still to be examined. `is_on`: a subscriber can be reached."""

    def __init__(self) -> None:
        self.is_on = False
        self.rest: Sequence[NodeName] = ()
        """Nodes that may have more to deliver than the last batch could."""
        self.looked: Place | None = None
        """The position of a look around, None between two of them."""
        self._is_wanted = False

    def __bool__(self) -> bool:
        """Return whether a batch is due for it, even if there are no requests."""
        return bool(self._is_wanted or self.rest or self.looked is not None)

    def look_around(self) -> None:
        """Have every node examined, after the current look around."""
        self._is_wanted = True

    def take_look(self) -> bool:
        """Return whether the next batch looks around; call it once for that batch."""
        if self.looked is not None:
            return True
        wanted, self._is_wanted = self._is_wanted, False
        return wanted

    def stop(self) -> None:
        """Deliver nothing until `is_on` is set."""
        self.is_on = self._is_wanted = False
        self.rest, self.looked = (), None

    def committed(self, rest: Sequence[NodeName], looked: Place | None) -> None:
        """Note what a committed batch has left for the next one."""
        self.rest, self.looked = (rest, looked) if self.is_on else ((), None)

    def lost(self, *, look: bool) -> None:
        """Note that a batch failed; `look`: it was to look around."""
        self._is_wanted = self.is_on and (self._is_wanted or look)
