"""The seam of the shell: what a store promises.

The store's seam speaks of rows and not of questions (`rows`, `listings`). Inside a batch everything is
synchronous, and a batch is one transaction. A store never ranks, prefers or judges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from msgspec import Struct

from pubqueue.app.store.rows import Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.app.store.listings import Listing
    from pubqueue.app.store.rows import Due, Needs, Ready, Rows, Writes
    from pubqueue.core.model import Millis, NodeName

R = TypeVar("R")
T = TypeVar("T")

FAR: Final = Reach()
"""From the beginning, and as far as it goes."""


class StoreError(Exception):
    """The store could not do its work; nothing of the batch has happened."""


class StaleError(StoreError):
    """A write found something else than its batch believed; nothing of the batch has happened.

    Facts: `kind` is the kind of row, or the statement that has found it, and `key` its key, as far as that is known.
    """

    def __init__(self, kind: str, key: object = None) -> None:
        row = kind if key is None else f"{kind} {key}"
        super().__init__(f"{row} is not what was believed")
        self.kind, self.key = kind, key


class FencedError(StoreError):
    """The process serves no more: its number is another's, or its store has become another one.

    Nothing of the batch has happened. The process has to enter again, as one that has just started.
    """


class UnfitError(StoreError):
    """The store cannot keep or read a value; nothing of the batch has happened, and trying again is in vain."""


class ForeignStoreError(StoreError):
    """What is at the store's address is not a store of ours, or cannot be used."""


class UnreachableStoreError(ForeignStoreError):
    """The store is kept by somebody who does not answer, or has no place for us at present."""


class Transaction(Protocol):
    """One transaction: rows as they are by now, and what is written to them.

    Whatever goes wrong in it is a StoreError. A transaction in which anything has gone wrong does nothing more and
    is never committed, also if whoever asked has caught the error.
    """

    @property
    def foreign(self) -> bool:
        """Whether somebody else has written since the last transaction that this store began."""

    def load(self, needs: Needs) -> Rows:
        """Return the rows that are there, in a handful of statements whatever their number."""

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach = FAR
    ) -> Ready:
        """Return for each node so many items that are queued, the first by priority and then by age.

        Of a group these are the items whose turn it is, by the number of the turn instead of their own. Items that are put
        aside come besides, as many again at most, in the same order. None whose time to live has ended is among them; of
        these no more are passed over than `reach` says, in all nodes together. No more come when the payloads are so many
        bytes.
        """

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has run out by now, of each kind so many at most."""

    def next_due(self) -> Millis | None:
        """Return when the next lock, pause, life or wait for a commit ends, or a schedule is due; the past if there is litter."""

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing behind `after` (None: from its beginning), so many at most."""

    def number(self, sequence: str, count: int) -> int:
        """Reserve so many numbers of a sequence, which begins with 1, and return the first.

        They are higher than any before, also after the newest item has gone.
        """

    def write(self, writes: Writes) -> None:
        """Make these writes, each guarded by what the row was.

        Raises:
            StaleError: a row was not what was believed.
            UnfitError: a value cannot be kept.

        """


class Instance(Struct, frozen=True):
    """A process among those that serve from one store; `died`: the one that had this number before did not leave."""

    number: int
    died: bool = False


class Instances(Protocol):
    """The processes that serve from one store."""

    async def enter(self) -> Instance:
        """Count this process among those that serve from the store; its number is its own until it leaves, or ends.

        Raises:
            StoreError: it cannot be counted.

        """

    async def renew(self) -> None:
        """Say that this process lives; to be called about once a second.

        Raises:
            FencedError: its number is another's: batches come to nothing, and it has to enter again.
            StoreError: it could not be said.

        """

    async def abandoned(self) -> list[int]:
        """Return the numbers of processes that have ended without leaving; they are ours now, until we `leave` them.

        Those that have not said for long that they live count as ended, and are fenced.

        Raises:
            StoreError: the store cannot say.

        """

    async def hear(self, patience: float) -> None:
        """Return when another process has said that it changed the store, or may have, or so many seconds later.

        A store whose processes cannot speak to each other returns when that time is over.
        """

    async def leave(self, number: int) -> None:
        """Give a number back: nothing is left undone under it. To close the store does not."""


class Store(Protocol):
    """A place that keeps what it has confirmed, whatever happens to the process or the machine."""

    @property
    def instances(self) -> Instances:
        """The processes that serve from it."""

    async def open(self) -> None:
        """Make ready, on the newest schema. Opening twice does no harm.

        Raises:
            ForeignStoreError: what is there is not ours, is newer than this program, or is unusable.
            UnreachableStoreError: that may pass.

        """

    async def close(self) -> None:
        """Let go of everything; closing twice does no harm."""

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result once it is safely on disk.

        What the job itself raises is raised, and nothing is kept.

        Raises:
            StoreError: an operation of the transaction has failed, whatever the job made of that, or the transaction
                could not be made durable; nothing of it has happened.

        """

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on what is committed by now, beside the batches; it changes nothing.

        Raises:
            StoreError: the store could not be read.

        """

    async def changes(self) -> bool:
        """Return whether another process has changed the store since the last call.

        Raises:
            StoreError: the store cannot say.

        """
