"""Publishes what is in an outbox. Any number of processes may run a relay for one table.

    asyncio.run(Relay(outbox, engine, Publisher()).run())

A relay claims rows in one transaction, publishes them under their ids, and deletes those that the service has confirmed in the next
transaction, which claims more. A relay that is killed leaves rows whose lease ends; then another one publishes them again under the
same ids, and the service does not enqueue again what it has. Nothing is deleted that was not confirmed.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import (
    ConfigurationError,
    NoSuchNode,
    NotAQueue,
    NotConfirmed,
    OtherId,
    PubqueueError,
    Refused,
    ServerUnreachable,
    ServiceUnavailable,
)
from pubqueue_xeps.log import log
from pubqueue_xeps.outbox.databases import source
from pubqueue_xeps.outbox.rows import FOR_EVER, Release, Row, Settled, Statements, free_followers
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.wire.times import Span, span
from pubqueue_xeps.worker.worker import SIGNALS, stopping_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable
    from signal import Signals
    from types import TracebackType

    from pubqueue_xeps.outbox.databases import Database, Source
    from pubqueue_xeps.outbox.outbox import Outbox

INTERVAL: Final = 1
LEASE: Final = 60
TIMEOUT: Final = 20
GRACE: Final = 10
IN_HAND: Final = 100
NEXT_WINDOW: Final = 0.05
"""Seconds before the next look, while there are rows behind the last one."""
GATHER: Final = 0.02
"""Seconds for which confirmations gather to one transaction, while others are still awaited."""
OF_SERVICE: Final = Timings(backoff_min=1, backoff_max=60)
"""The pauses before a row is tried again, and before the publisher logs in again."""
OF_DATABASE: Final = Timings(backoff_min=0.2, backoff_max=60)
"""The pauses before a database that has failed is asked again."""

FOR_GOOD: Final = (
    NoSuchNode,
    NotAQueue,
    Refused,
    OtherId,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""What trying again does not help."""
FOR_NOW: Final = (ServiceUnavailable, NotConfirmed)


@dataclass(slots=True)
class Relayed:
    """What a relay has done so far."""

    published: int = 0
    """Items that the service has confirmed."""
    duplicates: int = 0
    """Those of them that the service had already, for example from a relay that was killed."""
    refused: int = 0
    """Rows that were refused for good."""
    deferred: int = 0
    """Attempts that the service did not confirm in time; the rows are tried again."""


class Relay:
    """Publishes the rows of an outbox in their order, up to `in_hand` at a time.

    `database` is where the table is: an Engine or AsyncEngine of SQLAlchemy, an alias of Django's, a URL (`sqlite:///file.db`,
    `postgresql://user@host/name`), or a function that returns a connection of a driver. `publisher` is opened when the relay starts,
    for as long as it is not open; while the server or the service is away, the relay waits.

    Times are in seconds or timedeltas. `interval` is how long the relay waits before it looks again at a table that had nothing;
    `Outbox.notify` ends the wait. `lease` is how long rows belong to a relay: those of one that was killed are published by another
    when it is over. `timeout` is how long a publish waits for its confirmation before the row is released; it has to fit into the
    lease. `grace` is how long stopping waits for confirmations.

    A row that was refused for good (no such node, no right, an item that the node does not take) is marked with the reason, logged as
    `outbox.refused`, and not tried again until `Outbox.retry`; the rows behind it in its group wait for it, and no others do. A
    row that was not confirmed is tried again after 1 to 60 seconds.

    Run it with `run` or `run_blocking` as a program of its own, or in a program with a loop as `async with Relay(...)`. `drain`
    publishes all committed rows and returns. Raises ConfigurationError for a publisher with a `level`: a confirmation of a
    message does not mean that the item is on disk.
    """

    def __init__(
        self,
        outbox: Outbox,
        database: Any,  # noqa: ANN401 - of other libraries
        publisher: Publisher,
        *,
        interval: Span = INTERVAL,
        lease: Span = LEASE,
        timeout: Span = TIMEOUT,
        grace: Span = GRACE,
        in_hand: int = IN_HAND,
        signals: Collection[Signals] = SIGNALS,
    ) -> None:
        self._outbox, self._database, self._publisher = outbox, database, publisher
        self._interval, self._grace = span("interval", interval), span("grace", grace)
        self._lease, self._timeout = span("lease", lease), span("timeout", timeout)
        if self._timeout >= self._lease:
            raise ConfigurationError(
                f"timeout is {timeout!r}; it takes less than the lease, {lease!r}.",
                argument="timeout",
            )
        if in_hand < 1:
            raise ValueError(f"in_hand is at least 1, not {in_hand}.")
        if not isinstance(publisher, Publisher):
            raise TypeError("A relay takes a Publisher, also for run_blocking.")
        if publisher.level is not None:
            raise ConfigurationError(
                "A relay needs a publisher without level=: it deletes what the service has on disk.",
                argument="level",
            )
        source(database)  # raises for what is none
        self._in_hand, self._signals = in_hand, signals
        self.relayed = Relayed()
        self._run: _Run | None = None
        self._serving: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Publish until `stop` or one of `signals`; the second signal kills the program.

        Raises what the database raises at the first look at the table; later its errors are logged, and it is asked again. Raises
        LoginRefused, LoginFailed or Replaced if the publisher's account can no longer be used.
        """
        async with self._begun() as run:
            with stopping_on(self._signals, run.stop):
                await run.until_stopped()

    def run_blocking(self) -> None:
        """Do what `run` does, without asyncio."""
        asyncio.run(self.run())

    async def drain(self) -> Relayed:
        """Publish what is committed now, and return when nothing is left that can be published; rows that have to wait are left.

        Raises what `run` raises.
        """
        async with self._begun() as run:
            await run.until_empty()
        return self.relayed

    async def __aenter__(self) -> Self:
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(started), name="pubqueue outbox")
        try:
            await started
        except BaseException:
            self._serving.cancel()
            await asyncio.wait({self._serving})
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        serving, self._serving = self._serving, None
        assert serving is not None, "it was entered"
        self.stop()
        await asyncio.wait({serving})
        error_of_relay = serving.exception()
        if error_of_relay is not None and kind is None:
            raise error_of_relay

    @property
    def is_at_work(self) -> bool:
        """Whether it runs. One that an error has ended has logged `outbox.failed`."""
        return self._run is not None

    def stop(self) -> None:
        """Claim no more rows, and end when those in hand are confirmed, or after `grace`; from any thread."""
        if self._run is not None:
            self._run.stop_soon()

    def notify(self) -> None:
        """Look at the table now; from any thread. `Outbox.notify` calls it."""
        if self._run is not None:
            self._run.notify()

    async def _serve(self, started: asyncio.Future[None]) -> None:
        try:
            async with self._begun() as run:
                if not started.done():
                    started.set_result(None)
                await run.until_stopped()
        except Exception as error:
            if started.done():
                # the text of another error may have values of rows
                why = str(error) if isinstance(error, PubqueueError) else type(error).__name__
                log.error("outbox.failed", table=self._outbox.table, why=why)
                raise
            started.set_exception(error)

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[_Run]:
        if self._run is not None:
            raise RuntimeError("The relay is at work already.")
        run = self._run = _Run(
            self._outbox.table,
            source(self._database),
            self._publisher,
            self.relayed,
            interval=self._interval,
            lease=self._lease,
            timeout=self._timeout,
            grace=self._grace,
            in_hand=self._in_hand,
        )
        self._outbox.attach(self)
        try:
            async with run:
                yield run
        finally:
            self._outbox.detach(self)
            self._run = None


class _Run:
    """A relay at work."""

    def __init__(
        self,
        table: str,
        database: Source,
        publisher: Publisher,
        relayed: Relayed,
        *,
        interval: float,
        lease: float,
        timeout: float,
        grace: float,
        in_hand: int,
    ) -> None:
        self._table, self._database, self._publisher = table, database, publisher
        self._relayed = relayed
        self._interval, self._lease, self._timeout = interval, lease, timeout
        self._grace, self._in_hand = grace, in_hand
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._runs: set[asyncio.Task[None]] = set()
        """One for each group in hand, and for each row without a group."""
        self._held = 0
        self._settled = Settled([], [], [])
        self._name, self._claims = secrets.token_hex(8), itertools.count()
        self._after = 0
        """The last row of the last look, if there are rows behind it; all before it wait for others of their groups."""
        self._lost: list[str] = []
        """Claims whose transaction failed, perhaps after its commit."""
        self._failure: BaseException | None = None
        self._why = ""
        """Why the last row was not confirmed."""
        self._stopped = asyncio.Event()
        self._ceasing = False
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            # the first look: a table that does not exist is not waited for
            await self._database.run(
                lambda database: database.rows(Statements(self._table, database.dialect).refused(1))
            )
        except BaseException:
            await self._database.close()
            raise
        log.info("outbox.relaying", table=self._table)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._end()
        finally:
            await self._opened.aclose()
            await self._database.close()
            done = self._relayed
            log.info("outbox.stopped", table=self._table, published=done.published)

    async def until_stopped(self) -> None:
        """Publish until `stop`."""
        await self._open()
        while not self._stopped.is_set() and self._failure is None:
            await self._turn()
            await self._wait(min(self._interval, NEXT_WINDOW) if self._after else self._interval)
        await self._finish()

    async def until_empty(self) -> None:
        """Publish until nothing is left that can be claimed."""
        if not self._publisher.is_open:
            await self._opened.enter_async_context(self._publisher)
        while not self._stopped.is_set() and self._failure is None:
            claimed = await self._turn()
            if self._runs:
                await self._wait(self._interval)
            elif not claimed and not self._settled and not self._after:
                break
        await self._finish()

    def stop(self) -> bool:
        """Claim no more; return that there is something to end."""
        self._stopped.set()
        self._wake.set()
        return True

    def stop_soon(self) -> None:
        """Stop; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: the relay has ended
            self._loop.call_soon_threadsafe(self.stop)

    def notify(self) -> None:
        """Look at the table now; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: the relay has ended
            self._loop.call_soon_threadsafe(self._wake.set)

    # --- its beginning and its end

    async def _open(self) -> None:
        """Open the publisher, unless it is open; wait for a server that is away."""
        failed = 0
        while not self._publisher.is_open and not self._stopped.is_set():
            opening = asyncio.create_task(self._publisher.open())
            stopped = asyncio.create_task(self._stopped.wait())
            try:
                await asyncio.wait({opening, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopped.cancel()
                opening.cancel()
                await asyncio.wait({opening})
            if opening.cancelled():
                return
            try:
                opening.result()
            except ServerUnreachable as error:
                log.warning("outbox.waiting", table=self._table, why=str(error))
                await self._wait(OF_SERVICE.backoff(failed))
                failed += 1
            else:
                self._opened.push_async_callback(self._publisher.close)

    async def _finish(self) -> None:
        """Wait for what is in hand, for `grace` seconds."""
        self._stopped.set()
        if self._runs and self._failure is None:
            await asyncio.wait(self._runs, timeout=self._grace)
        if self._failure is not None:
            raise self._failure

    async def _end(self) -> None:
        """Settle what was answered, and release the other rows at once: another relay may publish it."""
        self._ceasing = True
        for task in self._runs:
            task.cancel()
        if self._runs:
            await asyncio.wait(self._runs)
        try:
            await self._database.run(self._release_all)
        except Exception as error:  # drivers share no class; the leases end by themselves
            self._database_failed(error)

    def _release_all(self, database: Database) -> None:
        statements = Statements(self._table, database.dialect)
        for statement in (
            *statements.settle(self._settled),
            statements.release(f"{self._name}.%"),
        ):
            database.change(statement)

    # --- a turn: one transaction, and what follows from it

    async def _turn(self) -> int:
        """Settle what was answered and claim more, as soon as the database lets; return the number of claimed rows."""
        for failed in itertools.count():
            settled, self._settled = self._settled, Settled([], [], [])
            room = 0 if self._stopped.is_set() else self._in_hand - self._held
            if not settled and not room:
                return 0
            claim, began = f"{self._name}.{next(self._claims)}", self._loop.time()
            try:
                rows = await self._database.run(partial(self._commit, settled, room, claim))
            except BaseException as error:
                self._keep(settled)
                self._lost.append(claim)
                if not isinstance(error, Exception):
                    raise
                self._database_failed(error)
                if self._stopped.is_set():
                    break
                await self._wait(OF_DATABASE.backoff(failed))
            else:
                self._lost.clear()
                if deferred := sum(released.is_tried for released in settled.released):
                    log.warning("outbox.deferred", table=self._table, count=deferred, why=self._why)
                self._start(rows, claim, began + self._lease)
                return len(rows)
        return 0

    def _keep(self, settled: Settled) -> None:
        """Settle these with the next ones: whether the transaction was committed is not known, and doing it again changes nothing."""
        self._settled.published[:0] = settled.published
        self._settled.refused[:0] = settled.refused
        self._settled.released[:0] = settled.released

    def _commit(self, settled: Settled, room: int, claim: str, database: Database) -> list[Row]:
        """Settle and claim; return the claimed rows in their order."""
        statements = Statements(self._table, database.dialect)
        lost = map(statements.release, self._lost)
        for statement in (*statements.settle(settled), *lost):
            database.change(statement)
        lease = int(self._lease * 1000)
        first = self._claim_first(database, statements, claim, room) if room else 0
        if not first:
            return []
        if first < room:
            found = database.rows(statements.followers(claim))
            if more := free_followers(found, room - first):
                database.change(statements.claim_too(claim, more, lease))
        return [Row(*row) for row in database.rows(statements.claimed(claim))]

    def _claim_first(
        self, database: Database, statements: Statements, claim: str, room: int
    ) -> int:
        """Claim rows of the first window, and of the one behind the last look; return their number."""
        claimed = after = 0
        while claimed < room:
            ends = database.rows(statements.end_of_window(after))
            until = ends[0][0] if ends else FOR_EVER
            window = statements.claim(
                claim, room - claimed, int(self._lease * 1000), after=after, until=until
            )
            claimed += database.change(window)
            if after or not ends:
                self._after = until if ends else 0
                break
            after = max(until, self._after)
        return claimed

    def _database_failed(self, error: Exception) -> None:
        # not its text, which may have values of rows
        state = getattr(error, "sqlstate", None) or getattr(
            getattr(error, "orig", None), "sqlstate", None
        )
        why = type(error).__name__ + (f" {state}" if state else "")
        log.warning("outbox.database_failed", table=self._table, why=why)

    # --- publishing

    def _start(self, rows: Iterable[Row], claim: str, until: float) -> None:
        by_group: dict[tuple[str, object], list[Row]] = {}
        for row in rows:
            key = row.seq if row.group is None else row.group
            by_group.setdefault((row.node, key), []).append(row)
        for together in by_group.values():
            self._held += len(together)
            task = asyncio.create_task(self._publish_in_order(together, claim, until))
            self._runs.add(task)
            task.add_done_callback(self._run_ended)

    async def _publish_in_order(self, rows: list[Row], claim: str, until: float) -> None:
        """Publish the rows of a group, each when the one before is confirmed; release those behind one that is not."""
        left = list(rows)
        try:
            while left and not self._ceasing and self._loop.time() + self._timeout <= until:
                row = left[0]
                is_published = await self._publish(row, claim)
                left.pop(0)
                self._held -= 1
                if not is_published:
                    break
        finally:
            self._held -= len(left)
            self._settled.released += [Release(row, claim, 0, is_tried=False) for row in left]

    async def _publish(self, row: Row, claim: str) -> bool:
        """Publish a row, and note what has become of it."""
        try:
            done = await self._publisher.publish(row.node, row.new_item(), timeout=self._timeout)
        except FOR_GOOD as error:
            self._relayed.refused += 1
            self._settled.refused.append((row, str(error)))
            log.error("outbox.refused", node=row.node, id=row.id, why=str(error))
            return False
        except FOR_NOW as error:
            self._relayed.deferred += 1
            pause = int(OF_SERVICE.backoff(row.tries - 1) * 1000)
            self._settled.released.append(Release(row, claim, pause, is_tried=True))
            self._why = str(error)
            return False
        self._relayed.published += 1
        self._relayed.duplicates += done.duplicate is True
        self._settled.published.append(row.seq)
        return True

    def _run_ended(self, task: asyncio.Task[None]) -> None:
        self._runs.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._wake.set()
        answered = len(self._settled.published)
        if not self._runs or answered * 2 >= self._in_hand:
            self._wake.set()
        elif self._timer is None:
            self._timer = self._loop.call_later(GATHER, self._settle_soon)

    def _settle_soon(self) -> None:
        self._timer = None
        self._wake.set()

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()
