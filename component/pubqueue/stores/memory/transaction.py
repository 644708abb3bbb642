"""One transaction: rows by their keys, what is ready and what is due, and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pubqueue.app.listings import Winners
from pubqueue.app.ports import FAR, StoreError
from pubqueue.app.rows import Due
from pubqueue.core.model import NO_TIME
from pubqueue.stores.memory import bulk, paging, writing
from pubqueue.stores.memory.loading import load
from pubqueue.stores.memory.ready import ready
from pubqueue.stores.memory.winners import Choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.app.listings import Listing
    from pubqueue.app.rows import Needs, Reach, Ready, Rows, Writes
    from pubqueue.core.model import Millis, NodeName
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.order import Order

R = TypeVar("R")


class MemoryTransaction:
    """Implements `pubqueue.app.ports.Transaction` on the contents."""

    def __init__(self, contents: Contents, *, writing: bool, foreign: bool) -> None:
        self._contents = contents
        self._writing = writing
        self.foreign = foreign
        self._choice: Choice | None = None

    def load(self, needs: Needs) -> Rows:
        """Return the rows that are there."""
        return load(self._contents, needs)

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, octets: int, reach: Reach = FAR
    ) -> Ready:
        """Return what can be handed out, of each node the first by priority and then by age."""
        return ready(self._contents.items, rooms, now, octets, reach)

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has run out by now, of each kind so many at most."""
        items = self._contents.items
        versions: list[tuple[str, int]] = []
        for until, key in self._contents.staging.untils:
            if until > now or len(versions) >= limit:
                break
            versions.append(key)
        return Due(
            locks=items.over(items.locks, now, limit),
            lives=items.over(items.lives, now, limit),
            delayed=items.over(items.dues, now, limit),
            versions=versions,
            leases=self._contents.nodes.over(now, limit),
        )

    def next_due(self) -> Millis | None:
        """Return when the next lock, pause, life or wait for a commit ends; the past if there is litter."""
        items, staging = self._contents.items, self._contents.staging
        if staging.dropped.rows:
            return NO_TIME
        leases = self._contents.nodes.leases
        orders: tuple[Order[Any], ...] = (
            *(items.locks, items.lives, items.dues),
            *(staging.untils, leases),
            self._contents.schedules.dues,
        )
        return min((first[0] for order in orders if (first := order.first())), default=None)

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing behind `after`, so many at most."""
        if isinstance(which, Winners):
            self._choice = Choice(self._contents, which.app, which.version, which.parts)
        return paging.page(self._contents, self._choice, which, after, limit)

    def number(self, sequence: str, count: int) -> int:
        """Reserve so many numbers of a sequence, and return the first."""
        self._must_write()
        return self._contents.number(sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes, or none of them.

        Raises:
            StaleError: a row was not what was believed.

        """
        self._must_write()
        contents = self._contents
        mark = contents.journal.mark()
        try:
            writing.write_nodes(contents, writes)
            bulk.record(contents, writes.events, writes.at, self._choice)
            writing.write_rows(contents, writes)
            for change in writes.bulk:
                bulk.make(contents, change, self._choice)
        except BaseException:
            contents.journal.undo(mark)
            raise

    def _must_write(self) -> None:
        if not self._writing:
            raise StoreError("whoever reads changes nothing")
