"""The place of a program's queues, and its contents, inspected while no service runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol

from harness.databases.postgres_kills import SESSIONS
from harness.patience import LOOK, until
from harness.stores.postgres_recount import recount_postgres
from harness.stores.recount import copied, recount
from harness.stores.replay import replayed, states
from harness.stores.store_contents import ALL

from pubqueue.engine.listings import Events
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sql.session import PAYLOAD
from pubqueue_xeps.wire.payloads.wrapper import unwrap

if TYPE_CHECKING:
    from pathlib import Path

    from harness.databases.postgres import Postgres
    from harness.stores.recount import Count

LOCKS: Final = "SELECT id, state, holder, token FROM item"
BODIES: Final = """SELECT item.id, payload FROM item
    JOIN contents ON contents.id = item.node_id JOIN node ON node.id = contents.node_id WHERE node.name = '{}'"""


class Kept(Protocol):
    """A place of queues; `address` is its name in a configuration."""

    address: str

    async def abandoned(self) -> None:
        """Return when nothing more is done of what a killed service has asked for."""

    def recount(self) -> Count:
        """Count its contents."""

    async def replayed(self) -> dict[str, str]:
        """Return the state of every item by the event log."""

    def locks(self) -> list[tuple[object, ...]]:
        """Return each item with its state, its holder and its token."""

    def bodies(self, node: str) -> dict[str, bytes]:
        """Return what was published of each item of a node, by its id."""


class KeptInFile:
    """A file of SQLite."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.address = f"sqlite:///{path}"

    async def abandoned(self) -> None:
        """A dead process writes nothing."""

    def recount(self) -> Count:
        return recount(self._path)

    async def replayed(self) -> dict[str, str]:
        return replayed(self._path)

    def locks(self) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self._path)) as file:
            return file.execute(LOCKS).fetchall()

    def bodies(self, node: str) -> dict[str, bytes]:
        with copied(self._path) as file:
            whole = BODIES.replace(
                "payload", f"(SELECT {PAYLOAD} FROM item i WHERE i.seq = item.seq)"
            )
            rows = file.execute(whole.format(node)).fetchall()
        return {name: unwrap(payload).data for name, payload in rows}


class KeptInPostgres:
    """The schema of a server."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self.address = server.address

    async def abandoned(self) -> None:
        """Wait for the sessions of the dead: the server ends a commit that it has begun before it notices."""
        await until(lambda: not self._server.ask(SESSIONS), every=LOOK)

    def recount(self) -> Count:
        return recount_postgres(self._server)

    async def replayed(self) -> dict[str, str]:
        store = PostgresStore(self.address)
        await store.open()
        try:
            return states(await store.read(lambda tx: tx.page(Events(None, ALL), None, ALL)))
        finally:
            await store.close()

    def locks(self) -> list[tuple[object, ...]]:
        return self._server.ask(LOCKS.replace("item", "pubqueue.item"))

    def bodies(self, node: str) -> dict[str, bytes]:
        with self._server.session() as session:
            session.execute("SET search_path = pubqueue")
            rows = session.execute(BODIES.format(node).encode()).fetchall()
        return {name: unwrap(payload).data for name, payload in rows}
