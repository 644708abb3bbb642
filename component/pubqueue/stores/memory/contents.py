"""All that the store keeps: its tables, its sequences, and the journal of them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.stores.memory.event_log import EventLog
from pubqueue.stores.memory.items import ItemTable
from pubqueue.stores.memory.nodes import NodeTable
from pubqueue.stores.memory.samples import SampleTable
from pubqueue.stores.memory.schedules import ScheduleTable
from pubqueue.stores.memory.staging import Staging
from pubqueue.stores.memory.table import Journal, Table

if TYPE_CHECKING:
    from pubqueue.core.model import NodeName


class Contents:
    """The tables, by what they are about."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.nodes = NodeTable(self.journal)
        self.items = ItemTable(self.journal)
        self.staging = Staging(self.journal)
        self.log = EventLog(self.journal)
        self.schedules = ScheduleTable(self.journal)
        self.samples = SampleTable(self.journal)
        self.commits = 0
        """How often they were changed, by whichever store has them."""
        self.instances: dict[int, object] = {}
        self._sequences: Table[str, int] = Table(self.journal)

    def number(self, sequence: str, count: int = 1) -> int:
        """Reserve numbers and return the first; those of a sequence only rise."""
        first = self._sequences.rows.get(sequence, 1)
        self._sequences.put(sequence, first + count)
        return first

    def reserve(self, sequence: str, number: int) -> None:
        """See to it that this number is not given any more."""
        if number >= self._sequences.rows.get(sequence, 1):
            self._sequences.put(sequence, number + 1)

    def count(self, name: NodeName, items: int) -> None:
        """Count items more, or less."""
        node = self.nodes.node(name)
        if node is not None and items:
            self.nodes.change(replace(node, items=node.items + items))

    def purge(self, name: NodeName) -> None:
        """Remove all items of a node; nobody holds any then."""
        self.items.empty(name)
        node = self.nodes.node(name)
        if node is not None:
            self.nodes.change(replace(node, items=0))
        for one in [one for one in self.nodes.subscribers(name) if one.in_flight]:
            self.nodes.subscribe(replace(one, in_flight=0), 0)

    def delete(self, name: NodeName) -> None:
        """Remove a node with all that hangs on it."""
        self.items.empty(name)
        self.items.forget_all(name)
        self.nodes.empty(name)
        self.nodes.nodes.put(name, None)
