"""The event log, replayed: what should be in the store if the log tells all and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.picture import ALL, contents, nodes
from harness.recount import copied

from pubqueue.app.listings import Events
from pubqueue.core.history import Kind
from pubqueue.core.model import State
from pubqueue.stores.sqlite.names import Names
from pubqueue.stores.sqlite.transaction import SqliteTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pubqueue.app.ports import Transaction
    from pubqueue.core.history import Event
    from pubqueue.core.pages import Logged

    Key = tuple[str, str | None]

WAITS, DEAD = "waits", "dead"


@dataclass
class Replay:
    """Every item that is there, with its state: it waits, it is dead, or who holds it, at which attempt."""

    items: dict[Key, object] = field(default_factory=dict)
    seq: int = 0

    def follow(self, log: Iterable[Logged]) -> Replay:
        """Take these events, which come behind those before, without a gap in what they tell."""
        for entry in log:
            assert entry.seq > self.seq
            self.seq = entry.seq
            self._take(entry.event)
        return self

    def _take(self, event: Event) -> None:
        key = event.node, event.item
        match event.kind:
            case Kind.PUBLISHED:
                self._enters(key)
            case Kind.DELIVERED:
                assert self.items[key] == WAITS
                self.items[key] = event.worker, event.attempt
            case Kind.COMPLETED | Kind.UNLOCKED | Kind.EXPIRED:
                assert self.items.pop(key) == (event.worker, event.attempt)
                assert event.held is not None
                if event.kind is not Kind.COMPLETED:
                    self.items[key] = WAITS
            case Kind.DEAD | Kind.REQUEUED:
                self._dies_or_lives(key, event)
            case Kind.RETRACTED:
                del self.items[key]
            case Kind.PURGED:
                left = {key: state for key, state in self.items.items() if key[0] != event.node}
                assert event.detail == str(len(self.items) - len(left))
                self.items = left

    def _dies_or_lives(self, key: Key, event: Event) -> None:
        before, after = (WAITS, DEAD) if event.kind is Kind.DEAD else (DEAD, WAITS)
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


def told(tx: Transaction) -> dict[Key, object]:
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
        tx = SqliteTransaction(copy, Names(), foreign=False)
        log = tx.page(Events(None, ALL), None, ALL)
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    states = Replay().follow(log).items
    return {
        str(name): "locked" if isinstance(state, tuple) else str(state)
        for (_, name), state in states.items()
    }
