"""Where the components of a run keep what they have: a SQLite file, or a PostgreSQL; looked at from beside them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from harness.recount import Count, recount
from harness.store_contents import recount as counts_against_rows

from pubqueue.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from pathlib import Path

    from harness.postgres import Postgres

ITEMS = "SELECT n.name, i.id, i.state FROM pubqueue.item i JOIN pubqueue.contents c ON c.id = i.node_id JOIN pubqueue.node n ON n.id = c.node_id"
EVENTS = "SELECT kind, item FROM {}event ORDER BY seq"


class Place(Protocol):
    """The store of a run; `where` is a file or an address."""

    @property
    def where(self) -> Path | str:
        """What a configuration is to say."""

    def is_empty(self) -> bool:
        """Say whether there are no items."""

    def events(self) -> list[tuple[str, str]]:
        """Return what happened to which item, in order."""

    async def count(self) -> Count:
        """Count what there is, once nobody writes to it any more."""


class SqlitePlace:
    """A file."""

    def __init__(self, path: Path) -> None:
        self.where = path

    def is_empty(self) -> bool:
        return self._ask("SELECT count(*) FROM item") == [(0,)]

    def events(self) -> list[tuple[str, str]]:
        return self._ask(EVENTS.format(""))

    async def count(self) -> Count:
        return recount(self.where)

    def _ask(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(f"file:{self.where}?mode=ro", uri=True)) as look:
            return look.execute(query).fetchall()


class PostgresPlace:
    """A schema of a server."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self.where = server.address

    def is_empty(self) -> bool:
        return self._server.ask("SELECT count(*) FROM pubqueue.item") == [(0,)]

    def events(self) -> list[tuple[str, str]]:
        return self._server.ask(EVENTS.format("pubqueue."))

    async def count(self) -> Count:
        rows = self._server.ask(ITEMS)
        store = PostgresStore(self.where)
        await store.open()
        wrong = await store.batch(counts_against_rows)
        await store.close()
        return Count({(node, name): state for node, name, state in rows}, tuple(wrong))
