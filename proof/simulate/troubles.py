"""A store with troubles: it refuses, answers late, and its process dies at any step of a batch."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from proof.simulate.plan import COMMITTED, WITHIN
from pubqueue.engine.ports import StaleError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from proof.simulate.places import PlacedStore
    from pubqueue.engine.ports import Transaction
    from pubqueue.model.entities import Millis

T = TypeVar("T")


LOST_RACES = 0.5
"""Of batches that have to race: the part that is lost."""


class DeadError(BaseException):
    """The process has died. No boundary between requests may catch this."""


class Troubles:
    """What one instance has to expect of its store at present."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.dies_at: int | None = None
        self.refuses = False
        self.full = False
        """The disk has no room: some statements of a batch fail in the store, others do not."""
        self.races = False
        """Others change the rows of its batches meanwhile, as stores let them that do not lock from the beginning."""
        self.late = 0.0
        self.answers = asyncio.Event()
        """Cleared, the store answers nothing: whether it has done a batch nobody knows."""
        self.answers.set()

    def __bool__(self) -> bool:
        """Say whether there are any."""
        ails = self.refuses or self.full or self.races or bool(self.late)
        return ails or self.dies_at is not None or not self.answers.is_set()

    def clear(self) -> None:
        """Have none."""
        self.dies_at, self.refuses, self.full = None, False, False
        self.races, self.late = False, 0.0
        self.answers.set()

    def refuse(self) -> None:
        """Refuse whatever is asked from now on."""
        self.refuses = True

    def accept(self) -> None:
        """Refuse nothing more."""
        self.refuses = False

    def fill(self) -> None:
        """Have no room on the disk from now on."""
        self.full = True

    def make_room(self) -> None:
        """Have room again."""
        self.full = False

    def race(self) -> None:
        """Lose races from now on."""
        self.races = True

    def win(self) -> None:
        """Lose none more."""
        self.races = False

    def next_end(self) -> Callable[[Transaction], Steps] | None:
        """Return how the next batch comes to nothing, at some step of it, if it does."""
        loses = self.races and self._random.random() < LOST_RACES
        if not self.refuses and not loses:
            return None
        at = self._random.randrange(WITHIN)
        return partial(Steps, at=at, end=_refuse if self.refuses else _lose)

    async def delay(self) -> None:
        """Let pass what the store takes, however long it does not answer."""
        await self.answers.wait()
        if self.late:
            await asyncio.sleep(self._random.uniform(0, self.late))


class Steps:
    """A transaction that counts what is asked of it, and ends at a step."""

    def __init__(self, tx: Transaction, at: int, end: Callable[[], NoReturn]) -> None:
        self._tx = tx
        self._left = at
        self.end = end
        self.foreign = tx.foreign
        self.wrote = False

    def __getattr__(self, call: str) -> Any:  # whatever the transaction has
        self._left -= 1
        if self._left == 0:
            self.end()
        self.wrote |= call == "write"
        return getattr(self._tx, call)


class TroubledStore:
    """A store as one instance sees it, on a machine whose clock shows `machine`; `time` is what deadlines go by.

    `on_commit` is called after each commit, before anybody else has a turn."""

    def __init__(
        self,
        store: PlacedStore,
        troubles: Troubles,
        die: Callable[[], None],
        on_commit: Callable[[], None],
        *,
        machine: Callable[[], Millis],
    ) -> None:
        self._store = store
        self.time = store.clock(machine)
        self._troubles = troubles
        self._die = die
        self._on_commit = on_commit
        self._dead = False
        self.instances = store.instances

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    def kill(self) -> None:
        """Do nothing more, for there is no process any more: the system takes its locks away."""
        self._dead = True
        self.instances.close()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        await self._troubles.delay()
        await self._must_live()
        dies_at, ending = self._troubles.dies_at, self._troubles.next_end()
        self._store.fill(full=self._troubles.full)
        if dies_at == 0:
            await self._end()
        try:
            result, dies_now = await self._store.batch(partial(self._do, job, dies_at, ending))
        except DeadError:
            await self._end()
        await self._must_live()
        self._on_commit()
        if dies_now:
            await self._end()
        await self._troubles.delay()
        await self._must_live()
        return result

    async def read(self, job: Callable[[Transaction], T]) -> T:
        await self._ask()
        return await self._store.read(job)

    async def changes(self) -> bool:
        await self._ask()
        return await self._store.changes()

    async def _ask(self) -> None:
        await self._troubles.delay()
        await self._must_live()
        if self._troubles.refuses:
            raise StoreError("the disk is gone")

    def _do(
        self,
        job: Callable[[Transaction], T],
        dies_at: int | None,
        ending: Callable[[Transaction], Steps] | None,
        tx: Transaction,
    ) -> tuple[T, bool]:
        """Run the job, and end it at its step, or at the commit if there are fewer; say whether to die after that.

        A batch that writes nothing is nothing to die at.
        """
        if self._dead:
            _die()
        if ending is not None:
            steps = ending(tx)
            job(steps)
            steps.end()
        if dies_at is None or dies_at > COMMITTED:
            return job(tx), False
        steps = Steps(tx, dies_at if dies_at <= WITHIN else 0, _die)
        result = job(steps)
        if steps.wrote and dies_at <= WITHIN:
            _die()
        return result, steps.wrote

    async def _end(self) -> NoReturn:
        self._die()
        await self._must_live()
        raise DeadError

    async def _must_live(self) -> None:
        if self._dead:
            await asyncio.Event().wait()


def on_a_full_disk(job: Callable[[Transaction], T], tx: Transaction) -> T:
    """Do the job, and find no room for it."""
    job(tx)
    raise StoreError("there is no room on the disk")


def _lose() -> NoReturn:
    raise StaleError("another was quicker")


def _refuse() -> NoReturn:
    raise StoreError("the disk is full")


def _die() -> NoReturn:
    raise DeadError
