"""The event log, written in the transaction of what it tells, for nodes that keep one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.changes import (
    ConfigureNode,
    CreateNode,
    DeleteNode,
)
from pubqueue.core.history import history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.app.ports import Transaction
    from pubqueue.core.changes import Change
    from pubqueue.core.model import Millis, NodeName

_SWITCHES: Final = frozenset({CreateNode, ConfigureNode, DeleteNode})


class EventLog:
    """Knows from batch to batch which nodes keep a log: where none does, a batch pays nothing for it."""

    def __init__(self) -> None:
        self._nodes: frozenset[NodeName] | None = None

    def forget(self) -> None:
        """Ask the store anew: what was known may have been undone."""
        self._nodes = None

    def record(
        self, tx: Transaction, asked: object, changes: Sequence[Change], now: Millis
    ) -> None:
        """Write what these changes mean for the log; called just before they are made."""
        nodes = self._nodes
        if nodes is None:
            nodes = self._nodes = frozenset(n.name for n in tx.nodes() if n.config.event_log)
        if nodes:
            entries = [entry for entry in history(asked, changes, now) if entry.node in nodes]
            if entries:
                tx.history.record(entries, now)
        if asked is not None and not _SWITCHES.isdisjoint(map(type, changes)):
            self._nodes = None
