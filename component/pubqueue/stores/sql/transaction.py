"""One transaction, which cannot be committed once anything in it has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pubqueue.engine.ports import FAR, StoreError, UnfitError
from pubqueue.stores.sql import load, pages
from pubqueue.stores.sql.write import write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.engine.listings import Listing
    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import Due, Needs, Reach, Ready, Rows, Writes
    from pubqueue.model.entities import Millis, NodeName
    from pubqueue.stores.sql.session import SqlSession


# One transaction: it reads and writes rows, and ranks or judges nothing.

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
        return load.load(self._session, needs)

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach = FAR
    ) -> Ready:
        """Return for each node up to so many items that can be delivered."""
        return load.ready(self._session, rooms, now, byte_count, reach)

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has expired at `now`, up to `limit` of each kind."""
        return load.due(self._session, now, limit)

    def next_due(self) -> Millis | None:
        """Return the next time at which something expires, None if nothing does."""
        return load.next_due(self._session)

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return up to `limit` rows of a listing after `after`."""
        return pages.page(self._session, which, after, limit)

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        return self._session.number(sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes; raise StaleError if a row is not what its write expects."""
        write(self._session, writes)


# A transaction that cannot be committed once anything in it has failed, even if the error was caught.
#
# A failed operation may be half done: six of ten rows are written. So there is one state, broken, and the only way
# out of it is to roll back the whole transaction.

T = TypeVar("T")


def unfit(problem: Exception) -> StoreError:
    """Return the store error for a value that no library has refused, because it cannot be encoded."""
    return UnfitError(f"{type(problem).__name__}: a value cannot be kept or read")


class Guarded:
    """Implements `pubqueue.engine.ports.Transaction` around another; `words` makes a StoreError of an exception of that."""

    def __init__(self, tx: Transaction, words: Callable[[Exception], StoreError] = unfit) -> None:
        self._tx = tx
        self._words = words
        self._failure: BaseException | None = None

    def check(self) -> None:
        """Check before the commit that nothing has failed.

        Raises:
            StoreError: something has, and nothing may be committed.

        """
        if self._failure is not None:
            raise StoreError(f"the transaction has failed: {self._failure}") from self._failure

    @property
    def foreign(self) -> bool:
        """Whether another process has written since the last transaction that this store began."""
        return self._tx.foreign

    def load(self, needs: Needs) -> Rows:
        """Return the existing rows."""
        return self._do(self._tx.load, needs)

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach = FAR
    ) -> Ready:
        """Return for each node up to so many items that can be delivered."""
        return self._do(self._tx.ready, rooms, now, byte_count, reach)

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has expired at this time."""
        return self._do(self._tx.due, now, limit)

    def next_due(self) -> Millis | None:
        """Return the next time at which something expires."""
        return self._do(self._tx.next_due)

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing after `after`."""
        return self._do(self._tx.page, which, after, limit)

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        return self._do(self._tx.number, sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes, or raise StaleError."""
        self._do(self._tx.write, writes)

    def _do(self, operation: Callable[..., T], *given: Any) -> T:  # noqa: ANN401  # what it takes
        self.check()
        try:
            return operation(*given)
        except StoreError as problem:
            self._failure = problem
            raise
        except Exception as problem:
            self._failure = self._words(problem)
            raise self._failure from problem
        except BaseException as problem:
            self._failure = problem
            raise
