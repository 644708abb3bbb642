"""The event log, replayed: what should be in the store if the log tells all and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.stores.recount import copied
from harness.stores.store_contents import ALL, contents, nodes

from pubqueue.app.store.listings import Events
from pubqueue.core.events import EventKind
from pubqueue.core.model import State
from pubqueue.stores.sql.node_ids import NodeIds
from pubqueue.stores.sqlite.transaction import SqliteTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pubqueue.app.store.ports import Transaction
    from pubqueue.core.events import Event
    from pubqueue.core.reading.pages import EventEntry

    Key = tuple[str, str | None]

WAITS, DEAD = "waits", "dead"


@dataclass
class Replay:
    """Every item that is there, with its state: it waits, it is dead, or who holds it, at which attempt."""

    items: dict[Key, object] = field(default_factory=dict)
    seq: int = 0

    def follow(self, log: Iterable[EventEntry]) -> Replay:
        """Take these events, which come behind those before, without a gap in what they tell."""
        for entry in log:
            assert entry.seq > self.seq
            self.seq = entry.seq
            self._take(entry.event)
        return self

    def _take(self, event: Event) -> None:
        key = event.node, event.item
        match event.kind:
            case EventKind.PUBLISHED:
                self._enters(key)
            case EventKind.DELIVERED:
                assert self.items[key] == WAITS
                self.items[key] = event.worker, event.attempt
            case EventKind.COMPLETED | EventKind.UNLOCKED | EventKind.EXPIRED:
                assert self.items.pop(key) == (event.worker, event.attempt)
                assert event.held is not None
                if event.kind is not EventKind.COMPLETED:
                    self.items[key] = WAITS
            case EventKind.DEAD | EventKind.REQUEUED:
                self._dies_or_lives(key, event)
            case EventKind.RETRACTED:
                del self.items[key]
            case EventKind.PURGED:
                left = {key: state for key, state in self.items.items() if key[0] != event.node}
                assert event.detail == str(len(self.items) - len(left))
                self.items = left

    def _dies_or_lives(self, key: Key, event: Event) -> None:
        before, after = (WAITS, DEAD) if event.kind is EventKind.DEAD else (DEAD, WAITS)
        if event.origin is not None:
            self._enters(key)
        elif event.to is not None:
            assert self.items.pop(key) in {WAITS, DEAD}
        else:
            assert self.items[key] == before
            self.items[key] = after

    def _enters(self, key: Key) -> None:
        assert key not in self.items
        self.items[key] = WAITS


def reported(tx: Transaction) -> dict[Key, object]:
    """Return every item that is there by the log."""
    return Replay().follow(tx.page(Events(None, ALL), None, ALL)).items


def there(tx: Transaction) -> dict[Key, object]:
    """Return every item that is there, as the log would tell of it."""
    items = [item for node in nodes(tx) for item, _ in contents(tx, node.name)]
    return {
        (item.node, item.id): (item.holder, item.acquired)
        if item.holder
        else (DEAD if item.state is State.DEAD else WAITS)
        for item in items
    }


def replayed(path: Path) -> dict[str, str]:
    """Replay the log of a store that nobody writes to: every item with its state, as `recount` has it."""
    with copied(path) as copy:
        tx = SqliteTransaction(copy, NodeIds(), foreign=False)
        log = tx.page(Events(None, ALL), None, ALL)
    return states(log)


def states(log: Sequence[EventEntry]) -> dict[str, str]:
    """Replay a whole log: every item with its state, as `recount` has it."""
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    found = Replay().follow(log).items
    return {
        str(name): "locked" if isinstance(state, tuple) else str(state)
        for (_, name), state in found.items()
    }
