"""One transaction, which cannot be committed once anything in it has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pubqueue.engine.ports import FAR, StoreError, UnfitError
from pubqueue.stores.sql import load, pages
from pubqueue.stores.sql.write import write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.engine.listings import Listing
    from pubqueue.engine.rows import Due, Needs, Reach, Ready, Rows, Writes
    from pubqueue.model.entities import Millis, NodeName
    from pubqueue.stores.sql.session import SqlSession


R = TypeVar("R")
T = TypeVar("T")


def unfit(problem: Exception) -> StoreError:
    """Return the store error for a value that no library has refused, because it cannot be encoded."""
    return UnfitError(f"{type(problem).__name__}: a value cannot be kept or read")


class SqlTransaction:
    """Implements `pubqueue.engine.ports.Transaction` on an open session: it reads and writes rows, and ranks or judges nothing.

    A failed operation may be half done: six of ten rows are written. So there is one state, broken, even if the error was
    caught, and the only way out of it is to roll back the whole transaction. `words` makes a StoreError of an exception.
    """

    def __init__(
        self,
        session: SqlSession,
        words: Callable[[Exception], StoreError] = unfit,
        *,
        foreign: bool,
    ) -> None:
        self._session, self._words = session, words
        self.foreign = foreign
        """Whether another process has written since the last transaction that this store began."""
        self._failure: BaseException | None = None

    def check(self) -> None:
        """Check before the commit that nothing has failed.

        Raises:
            StoreError: something has, and nothing may be committed.

        """
        if self._failure is not None:
            raise StoreError(f"the transaction has failed: {self._failure}") from self._failure

    def load(self, needs: Needs) -> Rows:
        """Return the rows that exist."""
        return self._do(load.load, needs)

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach = FAR
    ) -> Ready:
        """Return for each node up to so many items that can be delivered."""
        return self._do(load.ready, rooms, now, byte_count, reach)

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has expired at `now`, up to `limit` of each kind."""
        return self._do(load.due, now, limit)

    def next_due(self) -> Millis | None:
        """Return the next time at which something expires, None if nothing does."""
        return self._do(load.next_due)

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return up to `limit` rows of a listing after `after`."""
        return self._do(pages.page, which, after, limit)

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        return self._do(_number, sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes; raise StaleError if a row is not what its write expects."""
        self._do(_write, writes)

    def _do(self, operation: Callable[..., T], *given: Any) -> T:  # noqa: ANN401  # what it takes
        self.check()
        try:
            return operation(self._session, *given)
        except StoreError as problem:
            self._failure = problem
            raise
        except Exception as problem:
            self._failure = self._words(problem)
            raise self._failure from problem
        except BaseException as problem:
            self._failure = problem
            raise


def _number(session: SqlSession, sequence: str, count: int) -> int:
    session.check()
    return session.number(sequence, count)


def _write(session: SqlSession, writes: Writes) -> None:
    session.check()
    write(session, writes)
