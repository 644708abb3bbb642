"""The seam of the shell: what a store promises.

The store's seam has rows and no questions (`rows`, `listings`). Inside a batch everything is
synchronous, and a batch is one transaction. A store never ranks, prefers or judges.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from msgspec import Struct

from pubqueue.engine.rows import Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pubqueue.engine.listings import Listing
    from pubqueue.engine.rows import Due, Needs, Ready, Rows, Writes
    from pubqueue.model.entities import Millis, NodeName


R = TypeVar("R")
T = TypeVar("T")

FAR: Final = Reach()
"""From the beginning to the end."""


class StoreError(Exception):
    """The store could not do its work; nothing of the batch has happened."""


class StaleError(StoreError):
    """A write found another row than its batch assumed; nothing of the batch has happened.

    Facts: `kind` is the kind of row, or the statement that has found it, and `key` its key, if it is known.
    """

    def __init__(self, kind: str, key: object = None) -> None:
        row = kind if key is None else f"{kind} {key}"
        super().__init__(f"{row} is not what was believed")
        self.kind, self.key = kind, key


class FencedError(StoreError):
    """The process may no longer serve: another process has its number, or its store has been replaced.

    Nothing of the batch has happened. The process has to enter again, as one that has just started.
    """


class UnfitError(StoreError):
    """The store cannot keep or read a value; nothing of the batch has happened, and a retry would fail again."""


class ForeignStoreError(StoreError):
    """The database at the store's address is not ours, or cannot be used."""


class UnreachableStoreError(ForeignStoreError):
    """The store cannot be used now, and that may pass: its server does not answer or has no room for us, or its disk is full."""


@contextmanager
def waited_for() -> Iterator[None]:
    """Raise a failure of the store that may pass as UnreachableStoreError, which those who begin wait for."""
    try:
        yield
    except StoreError as problem:
        if type(problem) is not StoreError:
            raise
        raise UnreachableStoreError(str(problem)) from problem


class Transaction(Protocol):
    """One transaction: current rows, and writes to them.

    Every error in it is a StoreError. A transaction in which an error has occurred does nothing
    more and is never committed, even if the caller has caught the error.
    """

    @property
    def foreign(self) -> bool:
        """Whether another process has written since the last transaction that this store began."""

    def load(self, needs: Needs) -> Rows:
        """Return the existing rows, in a handful of statements whatever their number."""

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach = FAR
    ) -> Ready:
        """Return queued items of each node, as many as `rooms` has for it, the first by priority and then by age.

        Of a group these are the items that have its turn, by the number of the turn instead of their own. Items
        that are put aside come in addition, up to as many again, in the same order. Expired items are left out;
        the number of those that are skipped is bounded by `reach`, in all nodes together. The result ends when
        the payloads have `byte_count` bytes.
        """

    def due(self, now: Millis, limit: int) -> Due:
        """Return the rows that have expired, up to `limit` of each kind."""

    def next_due(self) -> Millis | None:
        """Return when the next lock, pause, lifetime or staged version ends, or a schedule is due; the past if there are rows to sweep."""

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return up to `limit` rows of a listing after `after` (None: from its beginning)."""

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence, which begins with 1, and return the first.

        They are higher than any before, even after the newest item has been removed.
        """

    def write(self, writes: Writes) -> None:
        """Make these writes, each guarded by the state of the row before.

        Raises:
            StaleError: a row was not in the assumed state.
            UnfitError: a value cannot be stored.

        """


class Instance(Struct, frozen=True):
    """A process among those that serve from one store; `died`: the previous one with this number did not leave."""

    number: int
    died: bool = False

    @property
    def follows_none(self) -> bool:
        """Whether no earlier process can have left unsent deliveries under this number. 0 is also the number of a process that is not counted."""
        return self.number > 0 and not self.died


class ThisProcess:
    """The process itself, among those that serve from its store: it gets its number when it enters, before the work begins."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    def serve_as(self, instance: Instance) -> None:
        """Set its number."""
        self.instance = instance


class Instances(Protocol):
    """The processes that serve from one store."""

    async def enter(self) -> Instance:
        """Count this process among those that serve from the store; its number is its own until it leaves, or ends.

        Raises:
            StoreError: it cannot be counted.
            UnreachableStoreError: not now; that may be temporary.

        """

    async def renew(self) -> None:
        """Report that this process is alive; to be called about once a second.

        Raises:
            FencedError: another process has its number: batches have no effect, and it has to enter
                again.
            StoreError: it could not be reported.

        """

    async def abandoned(self) -> list[int]:
        """Return the numbers of processes that have ended without leaving; they are ours now, until we `leave` them.

        Those that have not reported for long count as ended, and are fenced.

        Raises:
            StoreError: the store does not answer.

        """

    async def wait_for_change(self, patience: float) -> None:
        """Wait until another process reports a change, or until `patience` seconds have passed.

        If the processes of a store cannot notify each other, it returns after that time.
        """

    async def leave(self, number: int) -> None:
        """Give a number back: no work is left under it. Closing the store does not do this."""


class Store(Protocol):
    """A place that keeps confirmed data, whatever happens to the process or the machine."""

    @property
    def instances(self) -> Instances:
        """The processes that serve from it."""

    async def open(self) -> None:
        """Prepare the store, with the newest schema. Opening twice does no harm.

        Raises:
            ForeignStoreError: the database is not ours, is newer than this program, or is unusable.
            UnreachableStoreError: it is not reachable now; that may be temporary.

        """

    async def close(self) -> None:
        """Release everything; closing twice does no harm."""

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result once it is safely on disk.

        An exception of the job itself is raised, and nothing is stored.

        Raises:
            StoreError: an operation of the transaction has failed, whatever the job did about it, or the
                transaction could not be made durable; nothing of it has happened.

        """

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on the committed state, concurrently with the batches; it changes nothing.

        Raises:
            StoreError: the store could not be read.

        """

    async def changes(self) -> bool:
        """Return whether another process has changed the store since the last call.

        Raises:
            StoreError: the store does not answer.

        """
