"""Items with their payloads and receipts, finished work, and where each of them stands in which order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pubqueue.app.rows import rank
from pubqueue.core.model import NodeName, State
from pubqueue.core.queue.groups import in_line
from pubqueue.stores.memory.order import Order
from pubqueue.stores.memory.table import Table

if TYPE_CHECKING:
    from pubqueue.app.rows import Finished
    from pubqueue.core.model import Item, ItemId, Jid, Millis
    from pubqueue.stores.memory.table import Journal

    Place = tuple[Order[Any], Any]


class NodeItems:
    """What a node has, in every order in which it is asked for."""

    __slots__ = (
        *("aside", "counts", "dead", "dead_letters", "finished", "groups", "ids", "lines"),
        *("ready", "seqs", "turns", "waiting"),
    )

    def __init__(self) -> None:
        self.ids: dict[ItemId, int] = {}
        self.seqs: Order[int] = Order()
        self.ready: Order[tuple[int, int]] = Order()
        """By priority, the highest first, and age; of groups by their turns."""
        self.lines: dict[str, Order[int]] = {}
        """Of each group who is in line."""
        self.groups: Order[str] = Order()
        """Those of which somebody is."""
        self.turns: defaultdict[str, int] = defaultdict(int)
        """How many turns of each group are under way."""
        self.waiting: Order[int] = Order()
        """Who is in line of any group."""
        self.aside: Order[tuple[int, int]] = Order()
        self.dead: Order[int] = Order()
        """Those that nobody holds."""
        self.dead_letters: Order[tuple[int, int]] = Order()
        self.counts: defaultdict[State, int] = defaultdict(int)
        self.finished: set[ItemId] = set()

    def is_empty(self) -> bool:
        """Say whether nothing is in it."""
        return not self.ids and not self.finished


class ItemTable:
    """The tables of items, payloads, receipts and finished work."""

    def __init__(self, journal: Journal) -> None:
        self.items: Table[int, Item] = Table(journal, self._item_changed)
        self.payloads: Table[int, bytes] = Table(journal)
        self.receipts: Table[int, tuple[Jid, ...]] = Table(journal)
        self.places: Table[int, int] = Table(journal)
        """Of items that overwrite others: where they stand among the created ones."""
        self.finished: Table[tuple[NodeName, ItemId], Finished] = Table(
            journal, self._finished_changed
        )
        self.folders: dict[NodeName, NodeItems] = {}
        self.locks: Order[tuple[Millis, int]] = Order()
        self.dues: Order[tuple[Millis, int]] = Order()
        self.lives: Order[tuple[Millis, int]] = Order()
        self.untils: Order[tuple[Millis, NodeName, ItemId]] = Order()
        self._held: defaultdict[Jid, set[int]] = defaultdict(set)
        self._turns: dict[int, int] = {}
        """By the number of a turn: the item's."""

    def at(self, place: tuple[int, int]) -> Item:
        """Return the item that stands at a place of what is ready."""
        return self.items.rows[self._turns.get(place[1], place[1])]

    def folder(self, node: NodeName) -> NodeItems:
        """Return what the node has; the folder of one that has nothing is not kept."""
        return self.folders.get(node) or NodeItems()

    def find(self, node: NodeName, name: ItemId) -> Item | None:
        """Return the item."""
        folder = self.folders.get(node)
        seq = None if folder is None else folder.ids.get(name)
        return None if seq is None else self.items.rows[seq]

    def held(self, holder: Jid) -> list[Item]:
        """Return what is locked to exactly this JID, the oldest first."""
        return [self.items.rows[seq] for seq in sorted(self._held.get(holder, ()))]

    def with_payload(self, seq: int) -> tuple[Item, bytes]:
        """Return an item that is there, with its payload."""
        return self.items.rows[seq], self.payloads.rows[seq]

    def over(self, order: Order[tuple[Millis, int]], now: Millis, limit: int) -> list[Item]:
        """Return those whose moment has come, the longest overdue first."""
        found: list[Item] = []
        for moment, seq in order:
            if moment > now or len(found) >= limit:
                break
            found.append(self.items.rows[seq])
        return found

    def outdated(self, now: Millis, limit: int) -> list[tuple[NodeName, ItemId]]:
        """Return finished work that no longer counts, the longest overdue first, so much at most."""
        found: list[tuple[NodeName, ItemId]] = []
        for until, node, name in self.untils:
            if until > now or len(found) >= limit:
                break
            found.append((node, name))
        return found

    def remove(self, seq: int) -> None:
        """Remove an item with all that hangs on it."""
        self.items.put(seq, None)
        self.payloads.put(seq, None)
        if seq in self.receipts.rows:
            self.receipts.put(seq, None)
        if seq in self.places.rows:
            self.places.put(seq, None)

    def place(self, seq: int) -> int:
        """Return where an item stands among the created ones."""
        return self.places.rows.get(seq, seq)

    def empty(self, node: NodeName) -> None:
        """Remove all items of a node."""
        for seq in list(self.folder(node).seqs):
            self.remove(seq)

    def forget_all(self, node: NodeName) -> None:
        """Remove all finished work of a node."""
        for name in list(self.folder(node).finished):
            self.finished.put((node, name), None)

    # --- what follows from the rows ---

    def _item_changed(self, seq: int, before: Item | None, now: Item | None) -> None:
        moves = before is None or now is None or before.node != now.node
        if before is not None:
            self._leave(before)
            if moves:
                folder = self.folders[before.node]
                folder.seqs.remove(seq)
                del folder.ids[before.id]
                self._tidy(before.node)
        if now is not None:
            if moves:
                folder = self._open(now.node)
                folder.seqs.add(seq)
                folder.ids[now.id] = seq
            self._enter(now)

    def _leave(self, item: Item) -> None:
        folder = self.folders[item.node]
        folder.counts[item.state] -= 1
        for order, key in self._places(folder, item):
            order.remove(key)
        if item.group:
            self._leave_group(folder, item)
        if item.holder is not None:
            mine = self._held[item.holder]
            mine.remove(item.seq)
            if not mine:
                del self._held[item.holder]

    def _enter(self, item: Item) -> None:
        folder = self.folders[item.node]
        folder.counts[item.state] += 1
        for order, key in self._places(folder, item):
            order.add(key)
        if item.group:
            self._enter_group(folder, item)
        if item.holder is not None:
            self._held[item.holder].add(item.seq)

    def _enter_group(self, folder: NodeItems, item: Item) -> None:
        if item.turn:
            self._turns[item.turn] = item.seq
            folder.turns[item.group] += 1
        elif in_line(item):
            if item.group not in folder.lines:
                folder.lines[item.group] = Order()
                folder.groups.add(item.group)
            folder.lines[item.group].add(item.seq)
            folder.waiting.add(item.seq)

    def _leave_group(self, folder: NodeItems, item: Item) -> None:
        if item.turn:
            del self._turns[item.turn]
            folder.turns[item.group] -= 1
            if not folder.turns[item.group]:
                del folder.turns[item.group]
        elif in_line(item):
            folder.waiting.remove(item.seq)
            line = folder.lines[item.group]
            line.remove(item.seq)
            if not line:
                del folder.lines[item.group]
                folder.groups.remove(item.group)

    def _places(self, folder: NodeItems, item: Item) -> list[Place]:
        """Return the orders in which the item stands for what it is at present, with its keys there."""
        places: list[Place] = []
        seq, state = item.seq, item.state
        if state is State.LOCKED:
            places.append((self.locks, (item.deadline, seq)))
        elif state is not State.DEAD and item.expires is not None:
            places.append((self.lives, (item.expires, seq)))
        if state is State.QUEUED and not in_line(item):
            places.append((folder.ready, rank(item)))
        elif state is State.DELAYED:
            places.append((self.dues, (item.due, seq)))
            if item.aside:
                places.append((folder.aside, rank(item)))
        if item.dead_letter is not None:
            places.append((folder.dead_letters, (item.dead_letter.number, seq)))
            if state is not State.LOCKED:
                places.append((folder.dead, seq))
        return places

    def _finished_changed(
        self, key: tuple[NodeName, ItemId], before: Finished | None, now: Finished | None
    ) -> None:
        node, name = key
        if before is not None:
            self.untils.remove((before.until, *key))
            self.folders[node].finished.remove(name)
        if now is not None:
            self.untils.add((now.until, *key))
            self._open(node).finished.add(name)
        else:
            self._tidy(node)

    def _open(self, node: NodeName) -> NodeItems:
        if node not in self.folders:
            self.folders[node] = NodeItems()
        return self.folders[node]

    def _tidy(self, node: NodeName) -> None:
        if node in self.folders and self.folders[node].is_empty():
            del self.folders[node]
