"""The event log, replayed: what should be in the store if the log is complete and correct."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.stores.recount import copied
from harness.stores.store_contents import ALL, contents, nodes

from pubqueue.engine.listings import Events
from pubqueue.model.entities import State
from pubqueue.model.records import EventKind
from pubqueue.stores.sql.session import NodeIds
from pubqueue.stores.sql.transaction import SqlTransaction
from pubqueue.stores.sqlite.store import SqliteSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pubqueue.engine.ports import Transaction
    from pubqueue.model.records import Event
    from pubqueue.model.replies import EventEntry

    Key = tuple[str, str | None]

WAITS, HELD, DEAD = "waits", "held", "dead"


@dataclass
class Replay:
    """Every existing item, with its state: it waits, it is dead, or its holder and attempt."""

    items: dict[Key, object] = field(default_factory=dict)
    done: set[Key] = field(default_factory=set)
    """What was completed or retracted: a queue that keeps what is done may have it requeued."""
    seq: int = 0

    def follow(self, log: Iterable[EventEntry]) -> Replay:
        """Take these events, which follow those before, without a gap."""
        for entry in log:
            assert entry.seq > self.seq
            self.seq = entry.seq
            self._take(entry.event)
        return self

    def _take(self, event: Event) -> None:  # noqa: C901  # a case for each kind
        key = event.node, event.item
        match event.kind:
            case EventKind.PUBLISHED:
                self._enters(key)
            case EventKind.DELIVERED:
                assert self.items[key] == WAITS
                self.items[key] = event.worker, event.attempt
            case EventKind.COMPLETED:  # or late: then its lock had ended before
                assert self.items.pop(key) in {(event.worker, event.attempt), WAITS, DEAD}
                assert event.worker is not None
                assert event.held is not None
                self.done.add(key)
            case EventKind.UNLOCKED | EventKind.EXPIRED:
                assert self.items[key] == (event.worker, event.attempt)
                assert event.held is not None
                self.items[key] = WAITS
            case EventKind.HELD if event.worker is None:  # it is from its publish on
                assert self.items[key] == WAITS
                assert event.attempt == 0
                self.items[key] = HELD
            case EventKind.HELD:
                assert self.items[key] == (event.worker, event.attempt)
                assert event.held is not None
                self.items[key] = HELD
            case EventKind.SIGNALED:
                assert key in self.items
            case EventKind.WOKEN:
                assert self.items[key] == HELD
                self.items[key] = WAITS
            case EventKind.DEAD | EventKind.REQUEUED:
                self._dies_or_lives(key, event)
            case EventKind.RETRACTED:
                del self.items[key]
                self.done.add(key)
            case EventKind.PURGED:
                left = {key: state for key, state in self.items.items() if key[0] != event.node}
                assert event.detail == str(len(self.items) - len(left))
                self.items = left

    def _dies_or_lives(self, key: Key, event: Event) -> None:
        before, after = (WAITS, DEAD) if event.kind is EventKind.DEAD else (DEAD, WAITS)
        if event.origin is not None:
            self._enters(key)
        elif event.to is not None:
            assert self.items.pop(key) in {WAITS, HELD, DEAD}
        elif event.kind is EventKind.REQUEUED and key not in self.items:
            assert key in self.done
            self._enters(key)
        else:
            assert self.items[key] in {before, HELD}
            self.items[key] = after

    def _enters(self, key: Key) -> None:
        assert key not in self.items
        self.items[key] = WAITS


def reported(tx: Transaction) -> dict[Key, object]:
    """Return every existing item, according to the log."""
    return Replay().follow(tx.page(Events(None, ALL), None, ALL)).items


def there(tx: Transaction) -> dict[Key, object]:
    """Return every existing item, in the terms of the log."""
    items = [item for node in nodes(tx) for item, _ in contents(tx, node.name)]
    return {
        (item.node, item.id): (item.holder, item.acquired)
        if item.holder
        else {State.DEAD: DEAD, State.HELD: HELD}.get(item.state, WAITS)
        for item in items
    }


def replayed(path: Path) -> dict[str, str]:
    """Replay the log of a store to which no process writes: every item with its state, in the form of `recount`."""
    with copied(path) as copy:
        tx = SqlTransaction(SqliteSession(copy, NodeIds()), foreign=False)
        log = tx.page(Events(None, ALL), None, ALL)
    return states(log)


def states(log: Sequence[EventEntry]) -> dict[str, str]:
    """Replay a whole log: every item with its state, in the form of `recount`."""
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    found = Replay().follow(log).items
    return {
        str(name): "locked" if isinstance(state, tuple) else str(state)
        for (_, name), state in found.items()
    }
