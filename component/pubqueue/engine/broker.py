"""The broker: collects waiting requests into batches, and answers only after their commit.

While one batch is committed, the requests of the next one are collected. So a lone request commits at once, and in a
busy service many share the cost of a commit (group commit). After the commit the replies are sent in the order of the
requests, each before the notices it caused, and the deliveries last.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec.structs import replace

from pubqueue.engine.admission import Admission
from pubqueue.engine.batch import Committer, may_be_of_one, refusal_of
from pubqueue.engine.batch_size import MAX_BATCH_ITEMS, WaitingRequests
from pubqueue.engine.context import SERVICE, Context, Contexts, Payloads, Terms
from pubqueue.engine.damage import DamageReports
from pubqueue.engine.dispatch import PendingDispatch, WaitingTakers
from pubqueue.engine.fan_out import FanOut, NewItems, NodeChanges
from pubqueue.engine.forwarding import Forwarding
from pubqueue.engine.observe import (
    Clients,
    Observer,
    Observers,
    Rates,
    RatesObserver,
    StoreChanges,
    Waiting,
)
from pubqueue.engine.operator_log import OperatorLog
from pubqueue.engine.outbox import Outbox
from pubqueue.engine.ports import FencedError, Instance, ThisProcess
from pubqueue.engine.presence_retry import Acquaintances, Newcomers, PresenceRetry, Word
from pubqueue.engine.reader import LongWork, Reader, at_the_end, so_far
from pubqueue.engine.redelivery import Undelivered
from pubqueue.engine.sending import AfterCommit, Sender
from pubqueue.engine.table import READS
from pubqueue.engine.task import Task, Upkeep, answer_with, no_longer_behind
from pubqueue.engine.working_set import WorkingSet
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Millis
from pubqueue.model.replies import UNKNOWN, ConnectionEnded, Quieted
from pubqueue.rules.alerts import OF_WATCH
from pubqueue.rules.inspect import EndConnection
from pubqueue.rules.presence import Arrive, Leave, ReachChanged
from pubqueue.rules.subscribe import Subscribe
from pubqueue.rules.subscribers import QuietWorker
from pubqueue.rules.take import Take

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from pubqueue.engine.fan_out import Ask
    from pubqueue.engine.ports import Store
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Connection, Jid, Principal
    from pubqueue.model.replies import About

    Taken = tuple[Request, Callable[[Reply], None]]


log = structlog.get_logger(__name__)

ALONE: Final = Instance(0)
"""The instance of a process that has no number among those on its store."""

NOTED: Final = frozenset({Arrive, Leave, Take, EndConnection, QuietWorker, Subscribe})
"""Requests that are noted when they are submitted: arrivals, departures, takes, and what is done to connections."""

RETRY: Final = 1.0
"""Seconds until all queues are looked at, if a change of reach was refused."""

ENDING: Final = 2.5
"""Seconds for the store to finish when the service stops. Unfinished work is abandoned; it was not confirmed."""

LATER: Final = 10.0
"""Seconds until the next look around, after a fault of ours in dispatch."""


class Broker:
    """Takes requests from faces, has them decided in batches, and answers after each commit.

    Its parts are made in the order in which a batch uses them, and each is given those that exist already. What comes back is
    returned, except where no caller waits for it: parts submit requests of their own from timers and replies (`submit`, `_ask`),
    faces report to the outbox when they come and go (`_reach_others`, `_reach_changed`), and the reaper may be asleep when
    a batch shows that something ends earlier (`on_moment`).
    """

    def __init__(
        self,
        store: Store,
        terms: Terms,
        *,
        clock: Callable[[], Millis],
        payloads: Payloads = Payloads(),  # noqa: B008  # frozen
        service: Principal = SERVICE,
        instance: Instance = ALONE,
        about: Callable[[], About] = lambda: UNKNOWN,
        on_moment: Callable[[Millis | None], None] = lambda _moment: None,
        observers: Iterable[Observer] = (),
    ) -> None:
        self._clock, self._service = clock, service
        self._process = ThisProcess(instance)

        # who is here, and what waits for a batch
        self.outbox = Outbox(self._reach_others, self._reach_changed)
        self.admission = Admission()
        """Judges who may come in with a request; faces ask it before they read one."""
        self.life = secrets.token_hex(4)
        """A word of this start: names of connections begin with it (`new_name`), so that none of an earlier start comes again."""
        self.clients = Clients()
        """The clients that are connected to this process."""
        self.newcomers = Newcomers()
        self.acquaintances = Acquaintances()
        self._takers = WaitingTakers()
        self._work = Work()
        self._waiting = WaitingRequests()
        self.presence_retry = PresenceRetry(self.acquaintances, self._work.wake)

        # a batch: load, decide, change, dispatch, write
        self.upkeep = Upkeep()
        self._rates = Rates()
        self.damage = DamageReports(self.submit)
        self._contexts = Contexts(self._common_context(terms, payloads, about), clock, self.damage)
        self.upkeep.damaged = lambda: self.damage.count
        self._dispatch = PendingDispatch()
        self.undelivered = Undelivered(store, self._process, self.submit, clock)
        self.committer = Committer(
            store,
            self._contexts,
            self._dispatch,
            self.undelivered,
            reaches=self.outbox.reaches,
            takers=self._takers,
        )

        # after its commit: answers, notices, deliveries
        self.forwarding = Forwarding(store, self.outbox, self._process, service.jid, self.submit)
        """Notices for connections of other instances, and from them."""
        self._fan_out = FanOut(self.outbox, self.forwarding.send, self._ask)
        self._long_work = LongWork(self._fan_out, self.submit)
        sender = Sender(
            self.outbox,
            self.forwarding,
            self._fan_out,
            self._long_work,
            self.undelivered,
            service=service.jid,
            submit=self.submit,
        )

        # what is learnt from it, and by whom
        self.new_items = NewItems(service, self.submit)
        """Calls the followers of plain nodes."""
        self.node_changes = NodeChanges()
        """Calls functions that depend on the settings of nodes."""
        self.store_changes = StoreChanges(OF_WATCH)
        """Counts what may have changed, except for the alerts themselves."""
        own = OperatorLog(), RatesObserver(self._rates, clock), self.new_items, self.node_changes
        watching: Observers[Observer] = Observers((*own, self.store_changes, *observers))
        self._after_commit = AfterCommit(
            sender,
            self._dispatch,
            self._takers,
            watching,
            self.undelivered,
            self.acquaintances,
            self.newcomers,
            on_moment,
        )

        # what runs: one batch after the other, and reads beside them
        self._batches = Batches(
            self._work,
            self._waiting,
            self.presence_retry,
            dispatch=self._dispatch,
            committer=self.committer,
            after_commit=self._after_commit,
            clock=clock,
        )
        self._task = Task("broker", self._batches.run)
        self.reader = Reader(store, self._contexts, watching)
        self._beyond_limits: list[tuple[Subscribe, Callable[[Reply], None]]] | None = None
        """Subscriptions that wait until former connections are freed; None while none are being freed."""
        self._end_by: float | None = None
        self.has_given_up = False
        """Whether the store did not finish in time when the service stopped."""

    def _common_context(
        self, terms: Terms, payloads: Payloads, about: Callable[[], About]
    ) -> Context:
        """Return a context with the state of this process; each batch has one with its rows and its time."""
        return Context(
            *(WorkingSet(), Millis(0), terms, payloads),
            service=self._service,
            about=about,
            is_behind=self.outbox.is_behind,
            rate=lambda node: self._rates.per_minute(node, self._clock()),
            failing=lambda node: self._rates.failed_per_minute(node, self._clock()),
            came=self.newcomers.of,
            waiting=self._takers.of,
            clients=self.clients.page,
            is_connected=self.clients.is_here,
            asking=self.clients.asking,
            rounds=self.upkeep.rounds,
            least=lambda: self.outbox.least,
            largest_of=self.outbox.largest_of,
        )

    def new_name(self, number: int) -> str:
        """Return the name of a connection of this process, by its number."""
        return f"{self.life}-{number}"

    def is_from_before(self, one: Connection) -> bool:
        """Return whether a connection under the number of this process is of an earlier start."""
        return not one.name.startswith(f"{self.life}-")

    def adopt(self, terms: Terms) -> None:
        """Use these settings from the next batch on."""
        self._contexts.adopt(terms)

    @property
    def instance(self) -> Instance:
        """The number of this process among those on the store."""
        return self._process.instance

    def serve_as(self, instance: Instance) -> None:
        """Set the number of this process among those on the store; called before `start`."""
        self._process.serve_as(instance)
        self.undelivered.begin()

    def start(self) -> None:
        """Start working. Starting twice does no harm."""
        if not self._task.is_started:
            self._work.begin()
            self._end_by, self.has_given_up = None, False
            self._task.start()

    @property
    def task(self) -> asyncio.Task[None]:
        """The task that does the work; only `stop` ends it."""
        return self._task.running

    @property
    def service(self) -> Jid:
        """The address of the service, whose accounts have the addresses of connections."""
        return self._service.jid

    @property
    def rounds(self) -> int | None:
        """How many rounds of work are done; None while nothing waits. If the number does not change for long, the work hangs."""
        return None if self._work.quiet.is_set() else self._batches.rounds

    async def stop(self) -> None:
        """Deliver nothing more, answer the waiting requests, then stop. Stopping twice does no harm.

        Work that the store has not done in time is left to the next start, as after a kill: see `ENDING`.
        """
        self._work.stop()
        self.new_items.stop()
        await self.forwarding.stop()
        self._cut()
        self._takers.end()
        self.pause()
        self.presence_retry.retry_now()
        await self._in_time(self.reader.settled())
        await self.reader.stop()
        if self._task.is_started and not self.task.done():
            await self._in_time(self._work.quiet.wait())
        await self._task.stop()

    async def _in_time(self, end: Awaitable[object]) -> None:
        """Wait for this up to `ENDING` seconds after the first call."""
        loop = asyncio.get_running_loop()
        if self._end_by is None:
            self._end_by = loop.time() + ENDING
        try:
            async with asyncio.timeout_at(self._end_by):
                await end
        except TimeoutError:
            self.has_given_up = True
            counts = {"requests": len(self._waiting), "reads": self.reader.waiting}
            log.error("end.given_up", **counts)  # noqa: TRY400  # no trace

    def now(self) -> Millis:
        """Return the time at which requests are decided now."""
        return self._clock()

    @property
    def moment(self) -> Millis | None:
        """The next time at which a lock, a delay or a lifetime ends, as far as is known."""
        return self._after_commit.moment

    def submit(self, request: Request, answer: Callable[[Reply], None]) -> None:
        """Decide the request in a later batch, and call `answer` once, after its commit.

        A request that only reads is answered outside the batches, from what is committed when its turn comes. Arrivals,
        departures and bounces are not repeated by their senders: if the store fails, they are kept and tried again.
        """
        if type(request) in READS:
            self.reader.submit(request, answer)  # type: ignore[arg-type]  # it is one of these
            return
        if type(request) in NOTED:
            request, answer = self._noted(request, answer)
        self._waiting.add(request, answer)
        if not self._work.is_awake:
            self._work.wake()

    def _noted(
        self, request: Request, answer: Callable[[Reply], None]
    ) -> tuple[Request, Callable[[Reply], None]]:
        """Note an arrival, a departure or a take; return the request to decide in its place, and the function to answer."""
        if isinstance(request, Take):
            return self._takers.add(request, answer)
        if isinstance(request, EndConnection):
            return request, partial(self._end_connection, answer)
        if isinstance(request, QuietWorker):
            return request, partial(self._quiet, request, answer)
        if isinstance(request, Subscribe):
            if self._beyond_limits is not None:
                answer = partial(self._subscribed, request, answer)
            return request, answer
        if isinstance(request, Leave):
            self._takers.left(request.jid)
        elif isinstance(request, Arrive):
            self.newcomers.came(request.jid)
        return request, answer

    @contextmanager
    def freeing(self) -> Iterator[None]:
        """While the body frees former connections, a subscription that exceeds a limit waits: theirs may be counted in it."""
        self._beyond_limits = []
        try:
            yield
        finally:
            waiting, self._beyond_limits = self._beyond_limits, None
            for request, answer in waiting:
                self.submit(request, answer)

    def _subscribed(
        self, request: Subscribe, answer: Callable[[Reply], None], reply: Reply
    ) -> None:
        """Answer a subscription, unless it is to be judged again."""
        refused = isinstance(reply, Refused) and reply.refusal is Refusal.TOO_MANY_SUBSCRIPTIONS
        if refused and self._beyond_limits is not None:
            self._beyond_limits.append((request, answer))
        else:
            answer(reply)

    def _end_connection(self, answer: Callable[[Reply], None], reply: Reply) -> None:
        """End a connection, after the decision."""
        if isinstance(reply, ConnectionEnded) and reply.is_here:
            self.clients.end(reply.address)
        answer(reply)

    def _quiet(self, request: QuietWorker, answer: Callable[[Reply], None], reply: Reply) -> None:
        """Have a connection that asks for items itself quiet, or resume it, after the decision."""
        if isinstance(reply, Quieted) and reply.asking:
            self.clients.set_quiet(request.jid, quiet=request.quiet)
        answer(reply)

    def take(
        self, request: Take, answer: Callable[[Reply], None], holds: Callable[[], bool]
    ) -> Callable[[], None]:
        """Submit a take, and return the function that ends its wait if the requester goes but its address stays.

        `answer` is called exactly once: with the locked items, or with none. `holds` returns whether the login of the requester
        is still valid: nothing is delivered to one whose is not.
        """
        take, decided = self._takers.add(request, answer, holds)
        self._waiting.add(take, self.admission.counted(take.by, take, 0, decided))
        self._work.wake()
        return partial(self._takers.withdraw, take.number)

    def judge_waits_again(self) -> None:
        """End the waits of those whose logins are not valid any more; called after each change of the users."""
        self._takers.judge_again()

    async def handle(self, request: Request) -> Reply:
        """Decide a request of the service itself in a later batch, and return the reply after its commit.

        Raises:
            asyncio.CancelledError: the broker stopped before it had an answer.

        """
        return await self._reply(partial(self.submit, request))

    def submit_for(
        self, by: Principal, request: Request, answer: Callable[[Reply], None], size: int = 0
    ) -> None:
        """Submit a client's request of so many bytes, which counts as under way until it is answered (`admission`)."""
        self.submit(request, self.admission.counted(by, request, size, answer))

    async def handle_for(self, by: Principal, request: Request, size: int = 0) -> Reply:
        """Decide a client's request as soon as its account may come in with it, and return the reply after its commit.

        Raises:
            asyncio.CancelledError: the broker stopped before it had an answer.

        """
        await self.admission.turn(by, reads=type(request) in READS)
        return await self._reply(partial(self.submit_for, by, request, size=size))

    async def _reply(self, submit: Callable[[Callable[[Reply], None]], None]) -> Reply:
        """Submit a request with a function for its reply, and return that."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(decided: Reply) -> None:
            if not reply.done():  # the caller may have been cancelled
                reply.set_result(decided)

        submit(answer)
        task = self.task
        either: set[asyncio.Future[Any]] = {reply, task}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            task.result()
        return await reply

    def _reach_others(self) -> None:
        """Deliver to the addresses that can be reached, in all nodes; stop delivering if there are none."""
        self.committer.reaches_others()
        if self.outbox.is_open and not self._work.is_stopping:
            self._dispatch.is_on = True
            self.undelivered.flows = True
            self.undelivered.go_on()
            self._fan_out.resume()
            self.look_around()
        else:
            self.pause()

    def _reach_changed(self, address: Jid) -> None:
        """Look at the queues in which the address works."""
        self.submit(ReachChanged(address), self._note_reached)

    def _note_reached(self, reply: Reply) -> None:
        if isinstance(reply, Refused):  # all windows are counted again with the next rows
            asyncio.get_running_loop().call_later(RETRY, self.look_around)

    def look_around(self) -> None:
        """Look at every node: another process may have left items to deliver, or locks to end."""
        self._dispatch.look_around()
        self.new_items.look()
        self._work.wake()

    def others_wrote(self) -> None:
        """Look at everything that another process may have written."""
        self.store_changes.count += 1
        self.look_around()
        self.forwarding.look()
        self.node_changes.call()

    def pause(self) -> None:
        """Deliver nothing more until a face comes up; requests are still answered."""
        self._dispatch.stop()
        self.undelivered.flows = False

    async def drain(self, patience: float) -> None:
        """Answer waiting requests for up to `patience` seconds; then refuse those that have not begun, without any effect.

        Waits up to `ENDING` seconds for a batch under way.

        Before the call the faces must stop taking requests.
        """
        self._end_by = asyncio.get_running_loop().time() + ENDING
        self._takers.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.settled()
                self._cut()
                return await self.settled()
        self._cut()
        self.reader.refuse_waiting()
        self._batches.refuse_late()
        return await self._in_time(self.settled())

    def _cut(self) -> None:
        """Start no more slices of long work."""
        self._work.cut()
        self._long_work.end()

    async def settled(self) -> None:
        """Wait until no request waits or is under way. Slices of long work that wait for notices to be sent do not count."""
        quiet = self._work.quiet
        while not (quiet.is_set() and self.reader.is_quiet):  # each may give the other work
            await quiet.wait()
            await self.reader.settled()

    @property
    def waiting(self) -> Waiting:
        """How much waits now."""
        reads, size = self.reader.waiting, self._fan_out.byte_count
        return Waiting(len(self._waiting), reads, size, len(self._takers))

    def _ask(self, request: Ask, answer: Callable[[Reply], None]) -> None:
        """Read a page of an audience. Notices that are not sent when the service stops are dropped, or sent at the next start."""
        if not (self._work.is_stopping or self._work.is_cutting):
            self.submit(request, answer)


# Commits waiting requests in batches, one batch after the other, as long as there is work.


class Work:
    """Whether there is work for batches, and whether the service stops."""

    def __init__(self) -> None:
        self.is_awake = False
        """Whether a round runs or is about to; a request that is added then needs no `wake`."""
        self.is_stopping = self.is_cutting = False
        """Whether nothing more is delivered, and whether long work starts no more slices."""
        self.is_wanted = asyncio.Event()
        self.quiet = asyncio.Event()
        self.quiet.set()

    def begin(self) -> None:
        """Allow deliveries and slices, again if it was stopped before."""
        self.is_stopping = self.is_cutting = False

    def stop(self) -> None:
        """Allow no more deliveries."""
        self.is_stopping = True

    def cut(self) -> None:
        """Allow no more slices of long work."""
        self.is_cutting = True

    def wake(self) -> None:
        """Have a round run as soon as possible."""
        self.is_awake = True
        self.quiet.clear()
        self.is_wanted.set()

    def rest(self) -> None:
        """Note that nothing more is to be done."""
        self.is_awake = False
        self.quiet.set()


class Batches:
    """Runs rounds of batches while requests wait, items may be delivered, or a report is due again."""

    def __init__(
        self,
        work: Work,
        waiting: WaitingRequests,
        presence_retry: PresenceRetry,
        *,
        dispatch: PendingDispatch,
        committer: Committer,
        after_commit: AfterCommit,
        clock: Callable[[], Millis],
    ) -> None:
        self._work, self._waiting, self._presence_retry = work, waiting, presence_retry
        self._dispatch, self._committer, self._after_commit = dispatch, committer, after_commit
        self._clock = clock
        self.rounds = 0

    async def run(self) -> None:
        """Run until cancelled."""
        work = self._work
        try:
            while True:
                await work.is_wanted.wait()
                work.is_wanted.clear()
                while self._has_work:
                    await self._one_round()
                    self.rounds += 1
                    if self._has_work:
                        await asyncio.sleep(0)  # a store may commit without a pause
                work.rest()
        finally:
            work.rest()  # after the end no caller waits for an answer that does not come

    @property
    def _has_work(self) -> bool:
        return bool(self._waiting or self._dispatch or self._presence_retry.is_due)

    async def _one_round(self) -> None:
        try:
            await self._one_batch()
        except Exception:  # the outermost boundary: an unforeseen fault does not end the service
            log.exception("broker.failed", refused=len(self._waiting))
            self._refuse(self._waiting.take_all(), Refusal.INTERNAL_FAULT)
            await asyncio.sleep(RETRY)

    async def _one_batch(self) -> None:
        """Commit a batch; one that fails because of one of its requests is cut in halves."""
        if self._presence_retry.is_due:  # alone: a fault in it affects no other request
            taken, look = self._presence_retry.some(MAX_BATCH_ITEMS), False
        else:
            taken, look = self._waiting.take_batch(), self._dispatch.take_look()
        slices = [taken]
        while slices:
            taken = slices.pop(0)
            if self._presence_retry.any_kept:
                taken = self._presence_retry.before(taken)
            requests = [request for request, _ in taken]
            try:
                with no_longer_behind(self._refuse_stalled):
                    committed = await self._committer.commit(requests, everywhere=look)
            except Exception as problem:  # the boundary between this batch and the next one
                if len(requests) > 1 and may_be_of_one(problem):
                    half = len(requests) // 2
                    slices[:0] = [taken[:half], taken[half:]]
                else:
                    await self._lose(taken, refusal_of(problem, requests), problem, look=look)
            else:
                decisions, look = committed.done.decisions, False
                many = len(decisions)
                self._waiting.took(many, committed.took.deciding)
                self._committer.shrink()
                self._committer.end_damaged()
                self._after_commit.finish(taken[:many], committed, last=self._work.is_cutting)
                if committed.is_undeliverable:
                    asyncio.get_running_loop().call_later(LATER, self._look_again)
                if many < len(taken):
                    self._waiting.learn(requests, decisions)
                    if slices:  # halves keep their order
                        slices.insert(0, taken[many:])
                    else:
                        self._waiting.put_back(taken[many:])

    async def _lose(
        self, taken: Sequence[Taken], whose: Refusal, problem: Exception, *, look: bool
    ) -> None:
        """Answer the requests of a batch that failed: a store's error may pass, a fault of ours stays."""
        if self._work.is_cutting and isinstance(problem, FencedError):
            log.info("batch.late", requests=len(taken))  # it has left in order, and asks itself
        elif whose is Refusal.STORE_FAILED:
            log.error("batch.lost", requests=len(taken), why=str(problem))
        else:
            names = sorted({type(request).__name__ for request, _ in taken})
            log.error("batch.failed", requests=names, exc_info=problem)
        self._dispatch.lost(look=look)
        self._refuse(taken, whose)
        if not taken:
            await asyncio.sleep(1)  # only the wake-up is left to try again: not in a hot loop

    def _look_again(self) -> None:
        """Look for items to deliver in all nodes, unless dispatch has stopped."""
        if self._dispatch.is_on:
            self._dispatch.look_around()
            self._work.wake()

    def _refuse_stalled(self) -> None:
        """Refuse the requests that wait for a batch that does not end."""
        taken = self._waiting.take_all()
        if taken:
            log.error("batch.stalled", refused=len(taken))
        self._refuse(taken)

    def refuse_late(self) -> None:
        """Refuse the waiting requests because the service stops, except those that their senders do not repeat."""
        left = self._waiting.take_all()
        for request, answer in left:
            if isinstance(request, Word):
                self._waiting.add(request, answer)
            else:
                answer_with(answer, at_the_end(request))
        log.warning("drain.refused", requests=len(left) - len(self._waiting))

    def _refuse(self, taken: Sequence[Taken], refusal: Refusal = Refusal.STORE_FAILED) -> None:
        for request, answer in taken:
            if isinstance(request, Word) and refusal is Refusal.STORE_FAILED:
                self._keep(request)
            answer_with(answer, so_far(request) or Refused(refusal))

    def _keep(self, word: Word) -> None:
        """Keep a request that its sender does not repeat, and retry it later; another instance may serve a later session then."""
        if type(word) is Leave and word.at is None:
            word = replace(word, at=self._clock())
        self._presence_retry.keep(word)
        if not self._work.is_stopping:
            self._presence_retry.retry_later()
