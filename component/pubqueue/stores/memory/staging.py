"""What waits for commits: apps, open versions with their attempts and rows, and the records of commits."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.transactions.model import Record
from pubqueue.stores.memory.order import Order
from pubqueue.stores.memory.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pubqueue.core.model import ItemId, Jid, Millis, NodeName
    from pubqueue.core.transactions.model import (
        App,
        Attempt,
        Moved,
        StagedItem,
        StagedTotals,
        Version,
    )
    from pubqueue.stores.memory.table import Journal

    VersionKey = tuple[str, int]
    AttemptKey = tuple[str, int, int, int]
    RowKey = tuple[int, NodeName, ItemId]


class NumberedVersion(Struct, frozen=True, gc=False):
    """An open version with a number of its own: when it begins anew it has another."""

    number: int
    version: Version


class NumberedAttempt(Struct, frozen=True, gc=False):
    """An attempt with a number of its own, and that of its version."""

    number: int
    version: int
    attempt: Attempt


class Staging:
    """The tables of transactions."""

    def __init__(self, journal: Journal) -> None:
        self.apps: Table[str, App] = Table(journal, self._app_changed)
        self.versions: Table[VersionKey, NumberedVersion] = Table(journal, self._version_changed)
        self.attempts: Table[AttemptKey, NumberedAttempt] = Table(journal, self._attempt_changed)
        self.waiting: Table[str, StagedTotals] = Table(journal)
        self.records: Table[int, Record] = Table(journal, self._record_changed)
        self.dropped: Table[int, int] = Table(journal)
        """Attempts that no version wants any more, each with the number of its version."""
        self.staged: Table[RowKey, tuple[int, StagedItem]] = Table(journal, self._row_changed)
        """By attempt, node and id, with the number of the version."""
        self.untils: Order[tuple[Millis, VersionKey]] = Order()
        self.used: Order[tuple[Millis, str]] = Order()
        self.committed: Order[tuple[Millis, int]] = Order()
        self.record_ids: Order[int] = Order()
        self.opened: Order[tuple[int, VersionKey]] = Order()
        self._records_of: dict[VersionKey, int] = {}
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)
        self._attempts: defaultdict[VersionKey, dict[AttemptKey, None]] = defaultdict(dict)
        self._shelves: dict[int, dict[tuple[NodeName, ItemId], StagedItem]] = {}
        self._noted: defaultdict[tuple[int, NodeName, ItemId], dict[int, None]] = defaultdict(dict)

    def rows(self, attempt: int) -> dict[tuple[NodeName, ItemId], StagedItem]:
        """Return what an attempt has staged, in the order of its arrival."""
        return self._shelves.get(attempt, {})

    def attempts_of(self, key: VersionKey) -> list[NumberedAttempt]:
        """Return the attempts at an open version."""
        return [self.attempts.rows[one] for one in self._attempts.get(key, ())]

    def numbers_of(self, app: str) -> set[int]:
        """Return the open versions of an app."""
        return self._numbers.get(app, set())

    def noted(self, key: VersionKey, node: NodeName, name: ItemId) -> StagedItem | None:
        """Return what any attempt at the open version has staged under the id."""
        opened = self.versions.rows.get(key)
        if opened is None:
            return None
        by = self._noted.get((opened.number, node, name))
        return None if by is None else self.rows(next(iter(by)))[node, name]

    def record_of(self, key: VersionKey) -> Record | None:
        """Return the record of a committed version."""
        number = self._records_of.get(key)
        return None if number is None else self.records.rows[number]

    def listed(self, *, waiting: bool, after: int | None) -> Iterator[Record]:
        """Iterate over the records behind a number: of open versions, or of committed ones."""
        if not waiting:
            for number in self.record_ids.behind(after):
                yield self.records.rows[number]
            return
        for number, key in self.opened:
            if after is None or number > after:
                v = self.versions.rows[key].version
                yield Record(number, v.app, v.owner, v.number, v.began, None, v.items, v.bytes)

    def idle(self, before: Millis) -> list[str]:
        """Return the apps that nobody has used since then, and of which no version is open."""
        found: list[str] = []
        for used, name in self.used:
            if used >= before:
                break
            if not self.numbers_of(name):
                found.append(name)
        return found

    def free(self, owner: Jid, items: int, size: int) -> None:
        """Let so much less wait, of the account and in all."""
        for account in (owner, ""):
            there = self.waiting.rows.get(account)
            if there is not None:
                left = {"items": there.items - items, "bytes": there.bytes - size}
                self.waiting.put(account, replace(there, **left))

    def drop(self, key: VersionKey, kept: Sequence[tuple[int, int]] = ()) -> None:
        """Let nobody want the attempts at a version but these any more, and the version be open no longer."""
        for one in list(self._attempts.get(key, ())):
            if one[2:] not in kept:
                self.drop_attempt(one)
        self.versions.put(key, None)

    def unmoved(self) -> list[VersionKey]:
        """Return the versions that are open no longer and have attempts still, the oldest commit first."""
        found = [key for key in self._attempts if key not in self.versions.rows]
        return sorted(found, key=lambda key: self._records_of[key])

    def move(self, change: Moved) -> None:
        """Remove rows that are in their places, and attempts of which none is left."""
        for part, number, last in change.ends:
            key = change.app, change.version, part, number
            attempt = self.attempts.rows[key].number
            for node, name in list(islice(self.rows(attempt), last + 1)):
                self.staged.put((attempt, node, name), None)
        for key in list(self._attempts.get((change.app, change.version), ())):
            if not self.rows(self.attempts.rows[key].number):
                self.attempts.put(key, None)

    def drop_attempt(self, key: AttemptKey) -> None:
        """Let nobody want an attempt any more."""
        attempt = self.attempts.rows[key]
        self.attempts.put(key, None)
        self.dropped.put(attempt.number, attempt.version)

    def sweep(self, limit: int) -> None:
        """Remove so many rows that nobody wants at most, the last of an attempt first."""
        for attempt in list(self.dropped.rows):
            shelf = self.rows(attempt)
            for node, name in list(reversed(shelf))[:limit]:
                self.staged.put((attempt, node, name), None)
                limit -= 1
            if self.rows(attempt):
                return
            self.dropped.put(attempt, None)

    # --- what follows from the rows ---

    def _app_changed(self, name: str, before: App | None, now: App | None) -> None:
        if before is not None:
            self.used.remove((before.used, name))
        if now is not None:
            self.used.add((now.used, name))

    def _version_changed(
        self, key: VersionKey, before: NumberedVersion | None, now: NumberedVersion | None
    ) -> None:
        app, number = key
        if before is not None:
            self.untils.remove((before.version.until, key))
            self.opened.remove((before.number, key))
            self._numbers[app].remove(number)
        if now is not None:
            self.untils.add((now.version.until, key))
            self.opened.add((now.number, key))
            self._numbers[app].add(number)
        elif not self._numbers[app]:
            del self._numbers[app]

    def _attempt_changed(
        self, key: AttemptKey, before: NumberedAttempt | None, now: NumberedAttempt | None
    ) -> None:
        of = key[:2]
        if before is None and now is not None:
            self._attempts[of][key] = None
        elif before is not None and now is None:
            del self._attempts[of][key]
            if not self._attempts[of]:
                del self._attempts[of]

    def _record_changed(self, number: int, before: Record | None, now: Record | None) -> None:
        if before is not None and before.committed is not None:
            self.record_ids.remove(number)
            self.committed.remove((before.committed, number))
            del self._records_of[before.app, before.version]
        if now is not None and now.committed is not None:
            self.record_ids.add(number)
            self.committed.add((now.committed, number))
            self._records_of[now.app, now.version] = number

    def _row_changed(
        self, key: RowKey, before: tuple[int, StagedItem] | None, now: tuple[int, StagedItem] | None
    ) -> None:
        attempt, node, name = key
        if now is not None:
            version, row = now
            self._shelves.setdefault(attempt, {})[node, name] = row
            self._noted[version, node, name][attempt] = None
        elif before is not None:
            shelf, place = self._shelves[attempt], (before[0], node, name)
            del shelf[node, name]
            del self._noted[place][attempt]
            if not shelf:
                del self._shelves[attempt]
            if not self._noted[place]:
                del self._noted[place]
