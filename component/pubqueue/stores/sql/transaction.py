"""One transaction: it reads and writes rows, and ranks or judges nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pubqueue.engine.ports import FAR
from pubqueue.stores.sql.reading import loading, paging, ready
from pubqueue.stores.sql.writing.writes import write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.engine.listings import Listing
    from pubqueue.engine.rows import Due, Needs, Reach, Ready, Rows, Writes
    from pubqueue.model.entities import Millis, NodeName
    from pubqueue.stores.sql.session import SqlSession

R = TypeVar("R")


class RelationalTransaction:
    """Implements `pubqueue.engine.ports.Transaction` on an open session."""

    def __init__(self, session: SqlSession, *, foreign: bool) -> None:
        self._session = session
        self._foreign = foreign

    @property
    def foreign(self) -> bool:
        """Whether another process has written since the last transaction that this store began."""
        return self._foreign

    def load(self, needs: Needs) -> Rows:
        """Return the rows that exist."""
        return loading.load(self._session, needs)

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach = FAR
    ) -> Ready:
        """Return for each node up to so many items that can be delivered."""
        return ready.ready(self._session, rooms, now, byte_count, reach)

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has expired at `now`, up to `limit` of each kind."""
        return ready.due(self._session, now, limit)

    def next_due(self) -> Millis | None:
        """Return the next time at which something expires, None if nothing does."""
        return ready.next_due(self._session)

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return up to `limit` rows of a listing after `after`."""
        return paging.page(self._session, which, after, limit)

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        return self._session.number(sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes; raise StaleError if a row is not what its write expects."""
        write(self._session, writes)
