"""The recipe of CONTRIBUTING for a new kind of row, followed: an entry, its statements, its table, and nothing else."""

from __future__ import annotations

import pytest
from harness.batches.facts import NOW
from msgspec import Struct
from msgspec.structs import replace

from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import KINDS, RowKind
from pubqueue.engine.working_set import WorkingSet
from pubqueue.stores.postgres import schema as postgres
from pubqueue.stores.sql import write
from pubqueue.stores.sql.kinds import PLAIN, sql_of
from pubqueue.stores.sqlite import schema as sqlite


class Badge(Struct, frozen=True):
    """A row of the new kind."""

    owner: str
    colour: str
    revision: int


# fmt: off
BADGES = RowKind[str, Badge]("badges", "badge", Badge, key=["owner"], guard=["revision"], kept=True)
PASSING = RowKind[str, Badge]("badges", "badge", Badge, key=["owner"], guard=["revision"])
# fmt: on
TABLE = (
    "CREATE TABLE badge (owner TEXT PRIMARY KEY, colour TEXT NOT NULL, revision BIGINT NOT NULL)"
)
STATEMENTS = {
    "badges": "SELECT owner, colour, revision FROM badge WHERE owner IN %(list 1)s",
    "add_badge": "INSERT INTO badge (colour, revision, owner) VALUES ($1, $2, $3)",
    "change_badge": "UPDATE badge SET colour = $1, revision = $2 WHERE owner = $3 AND revision = $4",
    "drop_badge": "DELETE FROM badge WHERE owner = $1 AND revision = $2",
}
KEY = "ann@x"
GREEN, RED = Badge(KEY, "green", 1), Badge(KEY, "red", 2)


class Process:
    """A working set over a store, as a process has it."""

    def __init__(self, store):
        self._store = store
        self.rows = WorkingSet()
        self._changes = ChangeApplier(self.rows, lambda _: True)

    async def batch(self, job):
        def within(tx):
            self.rows.begin(tx)
            self._changes.begin(NOW, foreign=tx.foreign)
            found = job(self)
            self.rows.flush()
            return found

        found = await self._store.batch(within)
        self.rows.cache.shrink()
        return found

    def row(self, kind=BADGES):
        """Return the row, loaded if it is not known."""
        found = self.rows.row(kind, KEY)
        if self.rows.lacking:
            assert found is None
            self.rows.load()
            found = self.rows.row(kind, KEY)
        assert not self.rows.lacking
        return found

    def put(self, row):
        self._changes.put(BADGES, KEY, row)

    def believe_and_put(self, row):
        """Put the row in the place of a green one, whatever is stored."""
        self.rows.cache.of[BADGES][KEY] = GREEN
        self.put(row)


def written(kind):
    """Return the names of the statements that write rows of a kind in the usual way."""
    if not kind.one or sql_of(kind).write is not PLAIN.write:
        return set()
    return {f"{what}_{kind.one}" for what in ("add", "change", "drop")}


class OfKinds:
    """Part of the contract. A test class says how a statement of the test's own is run (`ask`)."""

    @pytest.fixture
    async def badges(self, store, monkeypatch):
        """Make the kind known, as an entry in `KINDS` and in the files of statements does, and its table, as a migration does."""
        monkeypatch.setattr(write, "KINDS", (*KINDS, BADGES))
        for name, text in STATEMENTS.items():
            monkeypatch.setitem(sqlite.SQL, name, sqlite.DIALECT.write(text))
            said = postgres.DIALECT.write(text)
            monkeypatch.setitem(postgres.SQL, name, said)
            monkeypatch.setitem(postgres.GUARDED, name, postgres.guarded(said))
        await self.ask(store, TABLE)
        yield store
        await self.ask(store, "DROP TABLE badge")

    def test_each_kind_has_its_statements_in_both_dialects(self):
        for kind in KINDS:
            assert {kind.name} | written(kind) <= sqlite.SQL.keys() & postgres.SQL.keys()

    async def test_a_new_kind_is_loaded_and_written(self, badges):
        for row in (GREEN, RED, None, GREEN, None):
            await Process(badges).batch(lambda process, row=row: process.put(row))
            assert await Process(badges).batch(Process.row) == row

    async def test_its_guard_is_compared_with_what_is_stored(self, badges):
        await Process(badges).batch(lambda process: process.put(GREEN))
        await self.ask(badges, "UPDATE badge SET revision = 5")
        for row in (RED, None):
            with pytest.raises(StaleError):
                await Process(badges).batch(lambda process, row=row: process.believe_and_put(row))
        assert await Process(badges).batch(Process.row) == replace(GREEN, revision=5)

    async def test_it_is_remembered_between_batches_if_its_entry_requires_it(self, badges):
        process = Process(badges)
        await process.batch(lambda process: process.put(GREEN))
        await process.batch(lambda process: process.row(PASSING))
        cache = process.rows.cache
        assert (cache.of[BADGES], cache.of[PASSING]) == ({KEY: GREEN}, {})

    async def test_that_it_is_not_there_is_known_once_it_was_asked_for(self, badges):
        process = Process(badges)
        assert await process.batch(Process.row) is None
        assert process.rows.cache.of[BADGES] == {KEY: None}
        assert process.rows.row(BADGES, KEY) is None
        assert not process.rows.lacking

    async def test_what_is_again_as_it_was_is_not_written(self, badges):
        await Process(badges).batch(lambda process: process.put(GREEN))

        def there_and_back(process):
            process.believe_and_put(RED)  # a write would be stale
            process.put(GREEN)

        await self.ask(badges, "UPDATE badge SET revision = 5")
        await Process(badges).batch(there_and_back)
        assert await Process(badges).batch(Process.row) == replace(GREEN, revision=5)
