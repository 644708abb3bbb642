"""Calls functions that depend on the settings of nodes when these may have changed, whichever process has committed the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.boundaries import apart
from pubqueue.app.watch.observers import Observer
from pubqueue.model.changes import ConfigureNode, CreateNode, DeleteNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.app.watch.watching import Took
    from pubqueue.model.decision import Decision
    from pubqueue.model.notices import Notice

OF_NODES: Final = frozenset({CreateNode, ConfigureNode, DeleteNode})


class NodeChanges(Observer):
    """Calls each function without arguments: of other processes it is only known that they have written, not which nodes."""

    fault = "node_changes.failed"

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def watch(self, function: Callable[[], None]) -> None:
        """Have the function called whenever nodes may have changed."""
        self._calls.append(function)

    def committed(
        self,
        requests: Sequence[Request],  # noqa: ARG002  # nodes change in many ways
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],  # noqa: ARG002
        took: Took,  # noqa: ARG002
    ) -> None:
        """Call the functions if this process has changed a node."""
        if self._calls and any(
            type(change) in OF_NODES for decision in decisions for change in decision.changes
        ):
            self.call()

    def call(self) -> None:
        """Call the functions, because another process may have changed nodes."""
        for function in self._calls:
            with apart(self.fault):
                function()
