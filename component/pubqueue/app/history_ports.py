"""The part of the store's seam for those who look from outside: the event log, and pages of what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.history import Entry
    from pubqueue.core.model import Millis, Node, NodeName, State
    from pubqueue.core.pages import Logged, Shown, Tally


class History(Protocol):
    """Facts that no worker needs."""

    def record(self, entries: Sequence[Entry], at: Millis) -> None:
        """Append to the event log, each entry under the number behind the newest.

        What it tells is about to be made in this transaction: winners of a commit are still staged.
        """

    def ends(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest event, 0 if there is none."""

    def aged(self, before: Millis, among: int) -> int | None:
        """Return the last of so many oldest events that is from before this moment."""

    def events(
        self, nodes: Sequence[NodeName] | None, after: int, until: int, limit: int
    ) -> list[Logged]:
        """Return the events of these nodes (None: all that are there) numbered behind `after` to `until`."""

    def newest(self, node: NodeName, *, dead: bool) -> int:
        """Return the highest number of an item of the node, or of a death; 0 if there is none."""

    def items(
        self,
        node: NodeName,
        *,
        after: int,
        until: int,
        state: State | None,
        payloads: bool,
        limit: int,
        room: int,
    ) -> tuple[list[Shown], bool]:
        """Return items behind `after` to `until`, those in DEAD by their deaths, and whether there are more.

        Of the payloads no more than `room` bytes are returned, but one item at least.
        """

    def tally(self, node: Node) -> Tally:
        """Count the node's items by state; that walks an index."""
