"""The tasks that time drives: locks that expire, kept messages, schedules, connections and instances that are gone."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine import cron_times
from pubqueue.engine.listings import ConnectionsOf, HoldersOf, MessagesOver
from pubqueue.engine.ports import FencedError, StoreError
from pubqueue.engine.task import Again, Task, stop_all
from pubqueue.model.decision import (
    ConnectionsFreed,
    Expired,
    LookedThrough,
    Overdue,
    Refusal,
    Refused,
)
from pubqueue.model.entities import NO_TIME, NodeName, connection, seconds
from pubqueue.model.records import MessagesEnded
from pubqueue.model.replies import Trimmed
from pubqueue.model.schedules import MAX_MISSED, Fired, Times, TimesWanted
from pubqueue.rules.audience import ResumeReviews
from pubqueue.rules.damage import ComputeSums
from pubqueue.rules.declare import DeleteUnused
from pubqueue.rules.expire import Expire, ListOverdue
from pubqueue.rules.messages import ForgetMessages
from pubqueue.rules.moving import ResumeMoves
from pubqueue.rules.presence import TOGETHER, FreeConnections
from pubqueue.rules.publish import ResumeFeeding
from pubqueue.rules.read import Trim
from pubqueue.rules.schedules import FireSchedule
from pubqueue.rules.seek import DropDone, ResumeSeeks
from pubqueue.rules.trimming import DropDead, ResumeTrims
from pubqueue.rules.unlock import Recover

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, Millis
    from pubqueue.model.records import KeptMessage
    from pubqueue.rules.expire import Key

    Beside = Callable[[Callable[[TimesWanted], Times], TimesWanted], Awaitable[Times]]
    Do = Callable[[Expire | ListOverdue], Awaitable[Reply]]


# The reaper: wakes when the next lock, delay or lifetime ends or a schedule is due, and submits that to the broker.

log = structlog.get_logger(__name__)

MAX_SLEEP: Final = 30.0
"""The maximum seconds of sleep: a clock that was set, forward or back, is noticed within this time."""

USUAL: Final = Trim(kept_for=seconds(7 * 86_400), kept=1_000_000)
"""Default age and size up to which the event log is kept."""

LATE_AFTER: Final = 3 * MAX_SLEEP
"""Seconds after which the reaper is late: it sleeps for a part of that, and many rows that expire together take time."""

TASK: Final = "reaper"
"""The name of the task in reports."""

RETRY: Final = 1.0
"""Seconds until a retry after the store has failed."""


class Reaper:
    """Sleeps until the time that the broker last set; an earlier one wakes it."""

    def __init__(
        self,
        *,
        clock: Callable[[], Millis],
        trim: Trim = USUAL,
        beside: Beside = asyncio.to_thread,
    ) -> None:
        self._clock = clock
        self._trim = trim
        self._trimmed = NO_TIME
        self.expired = NO_TIME
        """When it last looked for expired rows."""
        self._moving = False
        self._looked_at = NodeName("")
        self._dropped_in = NodeName("")
        self._dead_in = NodeName("")
        self._beside = beside
        self._aside = SettingAside(clock)
        self._next: Millis | None = None
        self._changed = asyncio.Event()
        self.task: Task | None = None
        self._round_is_over: Callable[[], None] = lambda: None

    def start(self, broker: Broker) -> None:
        """Begin to watch the clock. Starting twice does no harm."""
        if self.task is None:
            self._round_is_over = broker.upkeep.begins(TASK, LATE_AFTER)
            broker.upkeep.aside = lambda: len(self._aside)
            again = Again("reaper.failed")  # no other task ends locks
            self.task = Task(TASK, partial(self._watch, broker), again)
            self.task.start()

    async def stop(self) -> None:
        """Stop watching. Stopping twice does no harm."""
        task, self.task = self.task, None
        if task is not None:
            await task.stop()

    def adopt(self, trim: Trim) -> None:
        """Keep this much of the event log from now on."""
        self._trim = trim

    def on_moment(self, moment: Millis | None) -> None:
        """Note the next time at which something ends."""
        if moment != self._next:
            self._next = moment
            self._changed.set()

    async def _watch(self, broker: Broker) -> None:
        seen = self._clock()
        self._resume_moves(broker)
        await _do(Recover(), broker)
        self._round_is_over()
        await self._expire(broker)  # what expired while no process was running
        await self._trim_log(broker)
        while True:
            self._changed.clear()
            reported = False
            with contextlib.suppress(TimeoutError):
                # not wait_for: it loses the cancellation if the event has happened by then
                async with asyncio.timeout(self._pause()):
                    await self._changed.wait()
                reported = True
            before, seen = seen, self._clock()
            if seen < before:
                log.warning("clock.set_back", seconds=round((before - seen) / 1000, 1))
                await _do(Recover(), broker)
            # Ids of finished work are dropped at the same time, so that other events do not put that off for longer.
            if not reported:
                self._resume_moves(broker)
            if not reported or self._is_due():
                await self._expire(broker)
                if self._is_long_ago(self._trimmed):
                    await self._trim_log(broker)
            self._round_is_over()

    def _is_due(self) -> bool:
        """Return whether something ends now, or nothing was ended for a long time."""
        now = self._clock()
        return (self._next is not None and self._next <= now) or self._is_long_ago(self.expired)

    def _is_long_ago(self, moment: Millis) -> bool:
        return abs(self._clock() - moment) >= MAX_SLEEP * 1000

    async def _expire(self, broker: Broker) -> None:
        self.expired = self._clock()
        due = await self._aside.end(partial(_try, broker=broker))
        await fire(due, partial(_do, broker=broker), self._beside)

    def _resume_moves(self, broker: Broker) -> None:
        """Continue commits, reviews, trims and seeks that were begun before this process, or failed in the store.

        No requester waits for them.
        """
        if not self._moving:
            self._moving = True
            broker.submit(ResumeMoves(), self._moved)
            broker.submit(ResumeFeeding(), lambda _reply: None)
            broker.submit(ResumeReviews(), lambda _reply: None)
            broker.submit(ResumeTrims(), lambda _reply: None)
            broker.submit(ResumeSeeks(), lambda _reply: None)
            broker.submit(ComputeSums(), lambda _reply: None)
            broker.submit(DeleteUnused(self._looked_at), self._looked_through)
            broker.submit(DropDone(self._dropped_in), self._dropped)
            broker.submit(DropDead(self._dead_in), self._dead)

    def _looked_through(self, reply: Reply) -> None:
        """Continue after these nodes in the next round: a slice of them in each, however many there are."""
        self._looked_at = reply.up_to if isinstance(reply, LookedThrough) else NodeName("")

    def _dropped(self, reply: Reply) -> None:
        """Likewise of the queues that keep what is done."""
        self._dropped_in = reply.up_to if isinstance(reply, LookedThrough) else NodeName("")

    def _dead(self, reply: Reply) -> None:
        """Likewise of the nodes that delete dead items by themselves."""
        self._dead_in = reply.up_to if isinstance(reply, LookedThrough) else NodeName("")

    def _moved(self, _reply: Reply) -> None:
        self._moving = False

    async def _trim_log(self, broker: Broker) -> None:
        """Shorten the event log slice by slice; between two of them others have their batches."""
        self._trimmed = self._clock()
        reply = await broker.handle(self._trim)
        while isinstance(reply, Trimmed) and reply.more:
            self._round_is_over()  # a long log takes long
            reply = await broker.handle(self._trim)

    def _pause(self) -> float:
        if self._next is None:
            return MAX_SLEEP
        soonest = (
            RETRY if self._aside else 0.0
        )  # rows that are set aside are overdue: not in a hot loop
        return min(MAX_SLEEP, max(soonest, (self._next - self._clock()) / 1000))


async def _do(request: Recover | FireSchedule, broker: Broker) -> Reply:
    """Have the request done, and return the reply.

    A request that met a fault of ours yields to everything else that is due; its own turn comes again.
    """
    reply = await _try(request, broker)
    if isinstance(reply, Refused):
        await asyncio.sleep(RETRY)
    return reply


async def _try(
    request: Recover | FireSchedule | Expire | ListOverdue | FreeConnections, broker: Broker
) -> Reply:
    """Have the request done, and return the reply. While the store fails, it is retried, not in a hot loop."""
    while isinstance(reply := await broker.handle(request), Refused):
        if reply.refusal is Refusal.INTERNAL_FAULT:
            break
        await asyncio.sleep(RETRY)
    return reply


# Connections of an instance that is gone: their items are released, and their subscriptions end.
#
# A connection of an account of the service has an address with the number of its instance (`model.entities`). If the
# instance has died, or has just begun under a number that another process had before, none of them exists any more.
# JIDs are not affected: these are connected to their servers, whatever happens to an instance.

PAGE: Final = 5_000
"""Subscriptions that are looked at together; a thread reads them."""

HOLDERS: Final = 500
"""Holders that are read together."""


async def free_former(broker: Broker, store: Store) -> None:
    """Free the connections that earlier starts left under the number of this process, beside the work of others.

    The store is tried again while it fails. Meanwhile a subscription that exceeds a limit waits for the end.

    Raises:
        FencedError: this process no longer serves.

    """
    with broker.freeing():
        while True:
            try:
                return await free_connections(broker, store, broker.instance.number)
            except FencedError:
                raise
            except StoreError as problem:
                log.warning("connections.not_freed", why=str(problem))
            await asyncio.sleep(RETRY)


async def free_connections(broker: Broker, store: Store, instance: int) -> None:
    """End the subscriptions of all connections of the instance, release their items, and drop their stored notices.

    Those that hold items come first, because others wait for these. Some of them have no subscription any more.

    Raises:
        StoreError: the store could not be read.

    """
    await broker.forwarding.drop_all(instance)
    freed = Freed()
    last = None
    while holders := await store.read(partial(_holders, broker.service, instance, last)):
        last = holders[-1]
        await _free(broker, instance, holders, freed)
    after = 0
    while rows := await store.read(partial(_page, broker.service, instance, after)):
        after = rows[-1][0]
        await _free(broker, instance, (jid for _, jid in rows), freed)
    if freed.connections:
        counts = {"connections": freed.connections, "locks": freed.locks}
        log.info("connections.freed", instance=instance, **counts)


@dataclass
class Freed:
    """How many connections were freed, and how many locks of them have ended."""

    connections: int = 0
    locks: int = 0


async def _free(broker: Broker, instance: int, jids: Iterable[Jid], freed: Freed) -> None:
    """Free those of these addresses that are connections of the instance, slice by slice."""
    gone = [jid for jid in dict.fromkeys(jids) if _is_of(broker, jid, instance)]
    freed.connections += len(gone)
    slices = [tuple(gone[at : at + TOGETHER]) for at in range(0, len(gone), TOGETHER)][::-1]
    while slices:
        jids = slices.pop()
        reply = await _try(FreeConnections(jids), broker)
        if isinstance(reply, ConnectionsFreed):
            freed.locks += reply.locks
        elif len(jids) > 1:  # a fault of ours: the others are freed without the one that has it
            half = len(jids) // 2
            slices += [jids[half:], jids[:half]]
        else:
            log.error("connection.not_freed", jid=jids[0])


def _page(service: Jid, instance: int, after: int, tx: Transaction) -> list[tuple[int, Jid]]:
    return tx.page(ConnectionsOf(service, instance), after, PAGE)


def _holders(service: Jid, instance: int, after: Jid | None, tx: Transaction) -> list[Jid]:
    return tx.page(HoldersOf(service, instance), after, HOLDERS)


def _is_of(broker: Broker, jid: Jid, instance: int) -> bool:
    """Return whether the address is a connection of the instance, and not of this process, if the number is its own now.

    The store's pattern may match others too.
    """
    found = connection(jid, broker.service)
    if found is None or found.instance != instance:
        return False
    return instance != broker.instance.number or broker.is_from_before(found)


# Ends messages of assured service whose time is over, and forgets the answers that are remembered no more.

MESSAGES_PERIOD: Final = 2.0
"""Seconds between two looks, each of which reads a row."""


async def end_messages(
    broker: Broker, store: Store, report: Callable[[Iterable[KeptMessage]], None]
) -> None:
    """Look for what is over until cancelled; `report` gets the messages that ended undelivered.

    Raises:
        FencedError: this process no longer serves.

    """
    while True:
        try:
            while await store.read(partial(_is_over, broker.now())):
                reply = await broker.handle(ForgetMessages())
                if not isinstance(reply, MessagesEnded):
                    break
                report(reply.held)
        except FencedError:
            raise
        except StoreError as problem:
            log.warning("kept_messages.failed", why=str(problem))
        await asyncio.sleep(MESSAGES_PERIOD)


def _is_over(now: Millis, tx: Transaction) -> bool:
    return bool(tx.page(MessagesOver(now), None, 1))


# Other processes on the same store: finds the work that they leave.
#
# Each process delivers what its own requests make ready, and knows when the locks of its own batches
# end. A process that is killed, or has lost its stream, leaves ready items and locks that no other
# process tracks. So each asks the store whether another has written, when it is notified and once a
# second, and only then looks at all nodes. A process alone on its store never has to. If a process
# dies, another one sends its committed but unsent deliveries.

PROCESSES_PERIOD: Final = 1.0
"""The maximum seconds between two looks."""

PROCESSES_LATE_AFTER: Final = 60.0
"""Seconds after which one of the two tasks is late."""

LOOK: Final = "other processes"
LEASE: Final = "lease"
"""The names of the tasks in reports."""

GAP: Final = 0.2
"""The minimum seconds from one look to the next: others may write all the time."""


class OtherProcesses:
    """Has the broker look around whenever another process has changed the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tasks: list[Task] = []
        self._dead: list[int] = []
        self._looked: Callable[[], None] = lambda: None

    def start(self, broker: Broker) -> list[asyncio.Task[None]]:
        """Start the tasks, and return them; FencedError ends them. Starting twice does no harm."""
        if not self.tasks:
            lives = broker.upkeep.begins(LEASE, PROCESSES_LATE_AFTER)
            self._looked = broker.upkeep.begins(LOOK, PROCESSES_LATE_AFTER)
            again = Again(
                "other_processes.failed",
                PROCESSES_PERIOD,
                but=(FencedError,),
                then=broker.others_wrote,
            )
            self.tasks = [
                Task(LOOK, partial(self._watch, broker), again),
                Task(LEASE, partial(self._live, lives)),
            ]
            for task in self.tasks:
                task.start()
        return [task.running for task in self.tasks]

    async def stop(self) -> None:
        """Stop watching. Stopping twice does no harm.

        Raises the fault that ended the work before the stop, if there was one.
        """
        tasks, self.tasks = self.tasks, []
        await stop_all(tasks)

    async def _live(self, lives: Callable[[], None]) -> None:
        """Renew the number of this process at intervals, whatever the look at others waits for."""
        logged = False
        while True:
            try:
                await self._store.instances.renew()
                lives()
                logged = True
            except FencedError:
                raise
            except StoreError as problem:
                if logged:
                    log.warning("instance.not_renewed", why=str(problem))
                logged = False
            await asyncio.sleep(PROCESSES_PERIOD)

    async def _watch(self, broker: Broker) -> None:
        while True:
            await self._store.instances.wait_for_change(PROCESSES_PERIOD)
            try:
                wrote = await self._store.changes()
            except FencedError:
                raise
            except StoreError:
                wrote = True  # the broker's own look reports problems of the store
            if wrote:
                broker.others_wrote()
            if broker.undelivered.flows:
                await self._act_for_the_dead(broker)
            self._looked()
            await asyncio.sleep(GAP)

    async def _act_for_the_dead(self, broker: Broker) -> None:
        try:
            self._dead += await self._store.instances.abandoned()
            while self._dead:
                await free_connections(broker, self._store, self._dead[0])
                await broker.undelivered.act_for(self._dead[0])
                broker.submit(ResumeSeeks(), lambda _reply: None)
                log.info("instance.taken_over", number=self._dead.pop(0))
        except FencedError:
            raise
        except StoreError:
            return  # the next look tries again


# Gives schedules their turns, and logs the results.
#
# Their times are calculated here, in a thread and beside the batches: the cost of a calendar, or a
# fault in it, affects one schedule only.

TURNS: Final = 3
"""How often the times of a schedule are computed in one turn, if others change it meanwhile."""

TIMEOUT: Final = 5.0
"""Seconds that computing the times of one schedule may take; it takes milliseconds, because each walk is bounded."""

FAULT: Final = "its times could not be computed"
"""The error text of a schedule whose calendar has failed; the log has the fault."""


async def fire(
    names: Iterable[str], do: Callable[[FireSchedule], Awaitable[Reply]], beside: Beside
) -> None:
    """Give each schedule its turn, one after the other: a failure of one does not affect the others.

    `beside` runs a function with its argument without blocking the loop: in a thread.
    """
    for name in names:
        _log(await turn(name, do, beside))


async def turn(
    name: str, do: Callable[[FireSchedule], Awaitable[Reply]], beside: Beside = asyncio.to_thread
) -> Reply:
    """Give a schedule its turn: compute the times that it asks for, as often as others change it meanwhile."""
    reply = await do(FireSchedule(name))
    for _ in range(TURNS):
        if not isinstance(reply, TimesWanted):
            break
        reply = await do(FireSchedule(name, await _times(reply, beside)))
    return reply


async def _times(wanted: TimesWanted, beside: Beside) -> Times:
    try:
        async with asyncio.timeout(TIMEOUT):
            return await beside(worked_out, wanted)
    except (
        Exception
    ):  # the boundary of a calendar: the schedule is postponed, and all others continue
        log.exception("schedule.calendar_failed", schedule=wanted.name)
        return Times(wanted.revision, fault=FAULT)


def worked_out(wanted: TimesWanted) -> Times:
    """Return the times that a schedule asks for."""
    line = wanted.cron, wanted.zone
    found = cron_times.latest(*line, wanted.after, wanted.until, MAX_MISSED + 1)
    pending = tuple(found[-MAX_MISSED:])
    following = cron_times.following(*line, max(wanted.after, wanted.until))
    return Times(wanted.revision, pending, len(found) > len(pending), following)


def _log(reply: Reply) -> None:
    if not isinstance(reply, Fired):
        return  # logged where it failed
    if reply.skipped:
        log.warning("schedule.missed", schedule=reply.name)
    if reply.id is not None:
        log.info("schedule.fired", schedule=reply.name, item=reply.id)
    if reply.error and reply.first:
        log.warning("schedule.refused", schedule=reply.name, why=reply.error)


# Ends expired rows, and sets aside a row that cannot be ended, so that it does not keep other locks from ending.
#
# A set of rows that fails is halved, like a stale batch, down to the row that fails alone. The store itself names a row that
# cannot even be read. Either is logged, and retried much later.

AGAIN: Final = seconds(3600)
"""The time until a row that was set aside is retried."""

MAX_ROWS: Final = 1000
"""The maximum number of rows set aside; with more, the first are retried sooner."""

NO_ROWS: Final = Expire(only=frozenset())
"""Asks for the schedules alone: a row that cannot be ended does not prevent their turns."""


class SettingAside:
    """The rows that are set aside, each with the time since when."""

    def __init__(self, clock: Callable[[], Millis]) -> None:
        self._clock = clock
        self._since: dict[Key, Millis] = {}

    def __bool__(self) -> bool:
        """Return whether there are any: while there are, something is overdue."""
        return bool(self._since)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._since)

    async def end(self, do: Do) -> tuple[str, ...]:
        """End expired rows, and return the names of the schedules that are due.

        `do` submits a request, and returns a refusal only for a fault of ours.
        """
        now = self._clock()
        self._since = {key: at for key, at in self._since.items() if abs(now - at) < AGAIN}
        aside = frozenset(self._since)
        reply = await do(Expire(aside))
        if isinstance(reply, Refused):
            overdue = await do(ListOverdue())
            if isinstance(overdue, Overdue):
                await self._end_these([key for key in overdue.keys if key not in aside], do)
            reply = await do(NO_ROWS)
        if not isinstance(reply, Expired):
            return ()
        for key in reply.unread:
            self._set_aside(key)
        return reply.schedules

    async def _end_these(self, keys: Sequence[Key], do: Do) -> None:
        if not keys or not isinstance(await do(Expire(only=frozenset(keys))), Refused):
            return
        if len(keys) == 1:
            self._set_aside(keys[0])
            return
        half = len(keys) // 2
        await self._end_these(keys[:half], do)
        await self._end_these(keys[half:], do)

    def _set_aside(self, key: Key) -> None:
        kind, place, name = key
        log.error("overdue.set_aside", kind=kind, of=place, name=name)
        self._since[key] = self._clock()
        while len(self._since) > MAX_ROWS:
            del self._since[next(iter(self._since))]
