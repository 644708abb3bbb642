"""How many bytes of notices to many are waiting: above a bound their nodes accept no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from pubqueue.model.entities import NodeName

MAX_BYTES: Final = 8 << 20
"""Bytes that may wait in one place before their nodes accept no more publishes."""


class Backlog:
    """Counts the bytes that wait in one place.

    `nodes` returns the nodes of the waiting notices. `on_change` is called with it when too many
    bytes wait, and with None when there is room again, so that a publish does not have to ask.
    """

    def __init__(
        self,
        nodes: Container[NodeName],
        on_change: Callable[[Container[NodeName] | None], None],
    ) -> None:
        self._nodes, self._on_change = nodes, on_change
        self._is_over = False
        self.byte_count = 0

    def count(self, byte_count: int) -> None:
        """Count this many more waiting bytes; fewer, if it is below 0."""
        self.byte_count += byte_count
        is_over = self.byte_count > MAX_BYTES
        if is_over is not self._is_over:
            self._is_over = is_over
            self._on_change(self._nodes if is_over else None)
