"""What is staged in a transaction of the store, gathered and written once.

A publisher stages thousands of items under one mark. What its rows have in common (the app, the open version,
the attempt, the account's usage) is read once and counted here; the rows are written when somebody else reads
them, at a savepoint, and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pubqueue.app.ports import StaleError
from pubqueue.core.transactions import App, Usage
from pubqueue.stores.sqlite.queries import TXN

if TYPE_CHECKING:
    import sqlite3

    from pubqueue.core.model import Jid
    from pubqueue.core.transactions import Mark, Stage


@dataclass(slots=True)
class Version:
    """An open version with what it has gained since it was last written."""

    id: int
    immediate: bool
    items: int
    bytes: int
    until: int = 0
    more_items: int = 0
    more_bytes: int = 0


@dataclass(slots=True)
class Attempt:
    """An attempt at a part of it, the same."""

    id: int
    items: int
    more_items: int = 0
    more_bytes: int = 0


class Ledger:
    """The open versions, attempts and accounts that this transaction has met."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._versions: dict[tuple[str, int], tuple[App | None, Version | None]] = {}
        self._attempts: dict[tuple[int, int, int], Attempt] = {}
        self._used: dict[str, list[int]] = {}
        self._more: dict[str, list[int]] = {}

    def _one(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        return self._connection.execute(TXN[query], values).fetchone()

    def standing(self, app: str, version: int) -> tuple[App | None, Version | None]:
        """Return the app, and its version of this number if that is open."""
        key = app, version
        found = self._versions.get(key)
        if found is None:
            row = self._one("standing", app, version)
            if row is None:
                return None, None
            there = None if row[4] is None else Version(row[4], bool(row[5]), *row[6:])
            found = self._versions[key] = App(*row[:4]), there
        return found

    def attempt(self, version: Version, part: int, number: int) -> Attempt | None:
        """Return the attempt, if it has staged anything."""
        key = version.id, part, number
        found = self._attempts.get(key)
        if found is None:
            row = self._one("attempt", *key)
            if row is None:
                return None
            found = self._attempts[key] = Attempt(*row)
        return found

    def usage(self, account: Jid) -> Usage:
        """Return what waits for commits, of the account and in all."""
        return Usage(*self._usage(account), *self._usage(""))

    def _usage(self, account: str) -> list[int]:
        found = self._used.get(account)
        if found is None:
            found = self._used[account] = list(self._one("usage", account) or (0, 0))
        return found

    def open(self, change: Stage) -> tuple[Version, Attempt]:
        """Return the version and the attempt of the change, made if they were not there.

        Raises:
            StaleError: the app is another account's, or the version is of the other kind.

        """
        mark = change.mark
        _, version = self.standing(mark.app, mark.version)
        if version is None:
            version = self._begin(change)
        if version.immediate is not mark.immediate:
            raise StaleError("the version is of the other kind")
        return version, self.attempt(version, mark.part, mark.attempt) or self._try(version, mark)

    def _begin(self, change: Stage) -> Version:
        mark = change.mark
        app = self._one("add_app", mark.app, change.owner, change.at)
        if app is None:
            raise StaleError("add_app")
        times = change.at, change.until
        self._connection.execute(
            TXN["add_open"], (*app, change.owner, mark.version, mark.immediate, *times)
        )
        self._versions.pop((mark.app, mark.version), None)
        _, version = self.standing(mark.app, mark.version)
        assert version is not None
        return version

    def _try(self, version: Version, mark: Mark) -> Attempt:
        self._connection.execute(TXN["add_attempt"], (version.id, mark.part, mark.attempt))
        attempt = self.attempt(version, mark.part, mark.attempt)
        assert attempt is not None
        return attempt

    def add(self, change: Stage, items: int, size: int) -> None:
        """Count what the change adds to its version, its attempt and its account."""
        version, attempt = self.open(change)
        version.until = change.until
        for total in (version, attempt):
            total.items += items
            total.more_items += items
            total.more_bytes += size
        version.bytes += size
        for account in (change.owner, ""):
            used, more = self._usage(account), self._more.setdefault(account, [0, 0])
            used[0] += items
            used[1] += size
            more[0] += items
            more[1] += size

    def write(self) -> None:
        """Write what has gathered."""
        if not self._more:
            return
        execute = self._connection.execute
        for _, version in self._versions.values():
            if version is not None and version.until:
                more = version.more_items, version.more_bytes
                execute(TXN["add_to_open"], (*more, version.until, version.id))
                version.until = version.more_items = version.more_bytes = 0
        for attempt in self._attempts.values():
            more = attempt.more_items, attempt.more_bytes
            execute(TXN["add_to_attempt"], (*more, attempt.id))
            attempt.more_items = attempt.more_bytes = 0
        for account, (items, size) in self._more.items():
            execute(TXN["use"], (account, items, size))
        self._more.clear()

    def forget(self) -> None:
        """Forget what was read and what has gathered: it is undone, or about to change otherwise."""
        self._versions.clear()
        self._attempts.clear()
        self._used.clear()
        self._more.clear()

    def close(self) -> None:
        """Write what has gathered and begin anew."""
        self.write()
        self.forget()
