"""A store asked one question at a time: for tests, which may load row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.stores.store_contents import ALL

from pubqueue.engine.listings import ItemIds, Items, LogEnds, Nodes, Sweepable
from pubqueue.engine.working_set import WorkingSet
from pubqueue.model.after import has_room
from pubqueue.model.entities import Millis

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.ports import Transaction
    from pubqueue.model.entities import Item, ItemId, Jid, Node, NodeName


class StoreReader:
    """The questions of the working set, and a few listings; missing rows are loaded at once."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self._rows = WorkingSet()
        self._rows.begin(tx)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        ask = getattr(self._rows, name)

        def answer(*of: Any) -> Any:
            found = ask(*of)
            while self._rows.lacking:
                self._rows.load()
                found = ask(*of)
            return found

        return answer

    def nodes(self) -> list[Node]:
        return self.tx.page(Nodes(), None, ALL)

    def contents(self, node: NodeName) -> list[tuple[Item, bytes]]:
        return self.tx.page(Items(node), None, ALL)

    def next_due(self) -> Millis | None:
        return self.tx.next_due()

    def log_ends(self) -> tuple[int, int]:
        return self.tx.page(LogEnds())[0]

    def is_sweepable(self) -> bool:
        return self.tx.page(Sweepable(Millis(0))) == [True]

    def ready(self, node: NodeName, now: Millis) -> list[Item]:
        return [item for item, _ in self.tx.ready({node: ALL}, now, ALL).rows]

    def with_room(self, node: NodeName) -> set[Jid]:
        return {one.jid for one in self.subscribers(node) if has_room(one)}

    def item_ids(self, node: NodeName, limit: int = ALL) -> list[ItemId]:
        return self.tx.page(ItemIds(node), None, limit)
