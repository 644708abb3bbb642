"""The outbox: what the user's own transactions add, and what operators do about rows that were refused.

    outbox = Outbox()

    with Session(engine) as session, session.begin():
        session.add(order)
        outbox.add(session, "orders", {"order": order.number})

The item is published if and only if the transaction is committed. `pubqueue_xeps.outbox.relay` publishes it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload
from weakref import WeakSet

from pubqueue_xeps.client.publications import MAX_REQUEST_BYTES, new_item
from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.outbox.databases import on
from pubqueue_xeps.outbox.rows import NAME, Statements, stored
from pubqueue_xeps.wire.publication import carrying

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from pubqueue_xeps.outbox.databases import Database
    from pubqueue_xeps.outbox.rows import Statement
    from pubqueue_xeps.wire.publication import Carry
    from pubqueue_xeps.wire.times import When

T = TypeVar("T")

TABLE: Final = "pubqueue_outbox"


class AsyncConnection(Protocol):
    """An AsyncSession or AsyncConnection of SQLAlchemy: what is done with it has to be awaited."""

    async def run_sync(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's
        """Run a function with the connection that blocks."""


@dataclass(frozen=True, slots=True)
class NotPublished:
    """A row that is not tried any more, because it was refused for good."""

    node: str
    id: str
    group: str | None
    reason: str
    """What the service answered, or why the item cannot be sent. It has no payload."""
    tries: int
    """How often a relay has claimed it."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is in an outbox."""

    waiting: int
    """Rows that are still to be published."""
    refused: int
    """Rows that were refused for good; rows of their groups wait for them."""
    oldest: float | None
    """The age in seconds of the oldest row; None if there is none."""


class Notified(Protocol):
    """A relay at work in this process."""

    def notify(self) -> None:
        """Look at the table now."""


class Outbox:
    """A table in the user's own database, of items that are published when the transaction that has added them is committed.

    `table` is its name, perhaps with a schema. `headers` is a function that is called with the headers of each item, or None, and
    returns the headers to send, as that of a `Publisher`: `tracing.inject` gives each item the trace of the code that adds it.
    `largest` is the maximum size of a request in bytes, that of the relay's publisher. Raises ConfigurationError, a ValueError, for a
    name that would need quotes.

    A connection is a Session, AsyncSession, Connection or AsyncConnection of SQLAlchemy, Django's `connection` or the alias of one, or
    a connection of sqlite3, psycopg or psycopg2. With one of SQLAlchemy's asyncio, each method returns a coroutine to be awaited. The
    database is SQLite (3.35 or newer) or PostgreSQL (12 or newer); another raises ValueError, and another object TypeError.
    """

    def __init__(
        self,
        table: str = TABLE,
        *,
        headers: Carry | None = None,
        largest: int = MAX_REQUEST_BYTES,
    ) -> None:
        if NAME.fullmatch(table) is None:
            raise ConfigurationError(
                f"table is {table!r}; it takes letters, digits and underscores, and a schema with a dot, each up to 48 characters.",
                argument="table",
            )
        self.table: Final = table
        self._carry, self._largest = headers, largest
        self._relays: WeakSet[Notified] = WeakSet()
        self._changing = threading.Lock()

    def ddl(self, dialect: str) -> list[str]:
        """Return the statements that create the table and its indexes, for `sqlite` or `postgresql`."""
        return Statements(self.table, dialect).create()

    @overload
    def create_table(self, connection: AsyncConnection) -> Coroutine[Any, Any, None]: ...  # type: ignore[overload-overlap]
    @overload
    def create_table(self, connection: object) -> None: ...

    def create_table(self, connection: object) -> Coroutine[Any, Any, None] | None:
        """Create the table and its indexes unless they exist, in the transaction of the connection."""

        def work(database: Database) -> None:
            for sql in self.ddl(database.dialect):
                database.run(sql)

        return on(connection, work)

    @overload
    def add(  # type: ignore[overload-overlap]
        self,
        connection: AsyncConnection,
        node: str,
        payload: object,
        *,
        id: str | None = None,
        priority: int | None = None,
        delay: When | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        type: str | None = None,
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def add(
        self,
        connection: object,
        node: str,
        payload: object,
        *,
        id: str | None = None,
        priority: int | None = None,
        delay: When | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        type: str | None = None,
    ) -> str: ...

    def add(
        self,
        connection: object,
        node: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        priority: int | None = None,
        delay: When | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        type: str | None = None,  # noqa: A002 - the name of the attribute
    ) -> str | Coroutine[Any, Any, str]:
        """Add an item to the transaction of the connection, and return the id that the item will have.

        The payload and the other arguments are those of `Publisher.publish`; the payload may also be a `NewItem`. `delay` and `ttl`
        count from now. Items of one group are published in the order in which they were added; where transactions that add to one
        group overlap, there is no order, unless they wait for each other before they add. When the transaction is committed,
        `notify` wakes the relays of this process.

        Raises TypeError or ValueError for an item that cannot be sent, and RuntimeError if the connection is not in a transaction:
        the item would then be published whatever becomes of the user's own changes.
        """
        beside = {
            "id": id,
            "priority": priority,
            "delay": delay,
            "ttl": ttl,
            "headers": headers,
            "group": group,
            "type": type,
        }
        new = carrying(new_item(payload, beside), self._carry)
        name, item = stored(node, new, self._largest)

        def work(database: Database) -> str:
            if not database.is_in_transaction():
                raise RuntimeError(
                    "The connection is not in a transaction: each statement is committed by itself."
                )
            statements = Statements(self.table, database.dialect)
            database.change(statements.add(node, name, new.group, item))
            return name

        return on(connection, work)

    @overload
    def refused(  # type: ignore[overload-overlap]
        self, connection: AsyncConnection, *, limit: int = 100
    ) -> Coroutine[Any, Any, list[NotPublished]]: ...
    @overload
    def refused(self, connection: object, *, limit: int = 100) -> list[NotPublished]: ...

    def refused(
        self, connection: object, *, limit: int = 100
    ) -> list[NotPublished] | Coroutine[Any, Any, list[NotPublished]]:
        """Return up to `limit` rows that were refused for good, the oldest first."""

        def work(database: Database) -> list[NotPublished]:
            statement = Statements(self.table, database.dialect).refused(limit)
            return [NotPublished(*row) for row in database.rows(statement)]

        return on(connection, work)

    @overload
    def retry(  # type: ignore[overload-overlap]
        self, connection: AsyncConnection, *, node: str | None = None, id: str | None = None
    ) -> Coroutine[Any, Any, int]: ...
    @overload
    def retry(
        self, connection: object, *, node: str | None = None, id: str | None = None
    ) -> int: ...

    def retry(
        self,
        connection: object,
        *,
        node: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the attribute
    ) -> int | Coroutine[Any, Any, int]:
        """Let refused rows be published again, after their cause is gone: all, those of a node, or those of an id. Return their number."""
        return self._change(connection, lambda found: found.retry(node, id))

    @overload
    def drop(  # type: ignore[overload-overlap]
        self, connection: AsyncConnection, *, node: str | None = None, id: str | None = None
    ) -> Coroutine[Any, Any, int]: ...
    @overload
    def drop(
        self, connection: object, *, node: str | None = None, id: str | None = None
    ) -> int: ...

    def drop(
        self,
        connection: object,
        *,
        node: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the attribute
    ) -> int | Coroutine[Any, Any, int]:
        """Delete refused rows, which are then never published: all, those of a node, or those of an id. Return their number."""
        return self._change(connection, lambda found: found.drop(node, id))

    @overload
    def backlog(self, connection: AsyncConnection) -> Coroutine[Any, Any, Backlog]: ...  # type: ignore[overload-overlap]
    @overload
    def backlog(self, connection: object) -> Backlog: ...

    def backlog(self, connection: object) -> Backlog | Coroutine[Any, Any, Backlog]:
        """Return how many rows wait, for metrics and health checks; it reads the whole table."""

        def work(database: Database) -> Backlog:
            ((count, refused, age),) = database.rows(
                Statements(self.table, database.dialect).backlog()
            )
            return Backlog(count - refused, refused, None if age is None else max(0, age) / 1000)

        return on(connection, work)

    def notify(self) -> None:
        """Wake the relays of this process, from any thread, after a commit: they would look at their next interval.

        With Django, `transaction.on_commit(outbox.notify)` does it in the transaction.
        """
        with self._changing:
            relays = list(self._relays)
        for relay in relays:
            relay.notify()

    def attach(self, relay: Notified) -> None:
        """Have `notify` wake this relay too, for as long as it is there."""
        with self._changing:
            self._relays.add(relay)

    def detach(self, relay: Notified) -> None:
        """Wake this relay no more."""
        with self._changing:
            self._relays.discard(relay)

    def _change(
        self, connection: object, which: Callable[[Statements], Statement]
    ) -> int | Coroutine[Any, Any, int]:
        return on(
            connection,
            lambda database: database.change(which(Statements(self.table, database.dialect))),
        )
