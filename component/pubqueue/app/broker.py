"""The broker: collects what is waiting into batches, and speaks only after their commit.

While one batch is being made durable the next one gathers, so a lone request commits at once and a
busy queue shares the cost of the disk (group commit). After the commit the replies go out in the
order of the requests, each before the notices it caused, and the deliveries last.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec.structs import replace

from pubqueue.app.batch_size import MAX_BATCH_ITEMS, WaitingRequests
from pubqueue.app.boundaries import answer_with, apart
from pubqueue.app.committer import Committer, may_be_of_one, refusal_of
from pubqueue.app.dispatch.pending import PendingDispatch
from pubqueue.app.facts.context import SERVICE, Context
from pubqueue.app.notify.fan_out import FanOut
from pubqueue.app.notify.newcomers import Newcomers
from pubqueue.app.notify.outbox import Outbox
from pubqueue.app.notify.presence_retry import SHOWING, Acquaintances, PresenceRetry, Word
from pubqueue.app.notify.speaking import Speaker
from pubqueue.app.notify.undelivered import Undelivered
from pubqueue.app.reader import Reader
from pubqueue.app.rules import READS
from pubqueue.app.sliced_work import LongWork, at_the_end, so_far
from pubqueue.app.store.ports import FencedError, Instance
from pubqueue.app.task import Task
from pubqueue.app.upkeep import Upkeep
from pubqueue.app.watch.observers import Observer, Observers
from pubqueue.app.watch.operator_log import OperatorLog
from pubqueue.app.watch.throughput import Rates, RatesObserver
from pubqueue.app.watch.watching import Waiting
from pubqueue.app.working_set.working_set import WorkingSet
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.limits.quotas import DEFAULTS as QUOTAS
from pubqueue.core.model import Millis, digest
from pubqueue.core.nodes.access import AutoCreation
from pubqueue.core.nodes.subscriptions.reachability import ReachChanged
from pubqueue.core.nodes.subscriptions.subscribe import MAX_SUBSCRIPTIONS
from pubqueue.core.queue.expire import Arrive, Leave
from pubqueue.core.reading.summaries import UNKNOWN
from pubqueue.core.transactions.model import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from pubqueue.app.batch import BatchResult
    from pubqueue.app.notify.fan_out import Ask
    from pubqueue.app.rules import Request
    from pubqueue.app.store.ports import Store
    from pubqueue.core.decision import Reply
    from pubqueue.core.limits.quotas import Quotas
    from pubqueue.core.model import Jid, Principal
    from pubqueue.core.nodes.access import CreationPolicy
    from pubqueue.core.reading.summaries import About
    from pubqueue.core.transactions.model import Limits

    Taken = tuple[Request, Callable[[Reply], None]]

log = structlog.get_logger(__name__)

ALONE: Final = Instance(0)
"""A process that is not counted among others on its store."""

RETRY: Final = 1.0
"""Seconds until the next round, after a fault of ours outside all batches."""

ENDING: Final = 2.5
"""Seconds from the beginning of the end until what the store has not done is left as it is: nobody was told that it is done."""

LATER: Final = 10.0
"""Seconds until another look around, after a fault of ours let nothing be handed out."""


class Broker:
    """Takes requests from faces, has them decided in batches, and answers after each commit."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], Millis],
        policy: CreationPolicy,
        same_payload: Callable[[bytes, bytes], bool],
        on_moment: Callable[[Millis | None], None] = lambda _moment: None,
        limits: Limits = DEFAULTS,
        fingerprint: Callable[[bytes], bytes] = digest,
        max_subscriptions: int = MAX_SUBSCRIPTIONS,
        auto_creation: AutoCreation = AutoCreation.NEVER,
        instance: Instance = ALONE,
        about: Callable[[], About] = lambda: UNKNOWN,
        observers: Iterable[Observer] = (),
        service: Principal = SERVICE,
        operators: Iterable[Jid] = (),
        space_of: Callable[[bytes], str] = lambda _payload: "",
        quotas: Quotas = QUOTAS,
    ) -> None:
        self._clock, self._on_moment = clock, on_moment
        self._rates = Rates()
        self.upkeep = Upkeep()
        self.outbox = Outbox(self._reach_others, self._reach_changed)
        self.instance = instance
        """Which process this is among those on the store."""
        self._newcomers = Newcomers()
        self._judging = Context(
            WorkingSet(),
            now=Millis(0),
            policy=policy,
            same_payload=same_payload,
            limits=limits,
            fingerprint=fingerprint,
            max_subscriptions=max_subscriptions,
            auto_creation=auto_creation,
            is_behind=self.outbox.is_behind,
            rate=lambda node: self._rates.per_minute(node, self._clock()),
            came=self._newcomers.of,
            failing=lambda node: self._rates.failed_per_minute(node, self._clock()),
            about=about,
            rounds=self.upkeep.rounds,
            service=service,
            operators=frozenset(operators),
            space_of=space_of,
            quotas=quotas,
        )
        self.undelivered = Undelivered(store, instance, self.submit, clock)
        self._dispatch = PendingDispatch()
        self._committer = Committer(
            store,
            self._dispatch,
            self.outbox.reaches,
            context_of=self._context_of,
            note=self.undelivered.note,
            on_stall=self._refuse_waiting,
            on_undeliverable=self._look_later,
        )
        self._fan_out = FanOut(self.outbox, self._ask)
        self._long_work = LongWork(self._fan_out, self.submit)
        self._speaker = Speaker(
            self.outbox,
            self._fan_out,
            self._long_work,
            service=service.jid,
            submit=self.submit,
            on_unsent=self._note_unsent,
        )
        self._moment: Millis | None = None
        own = OperatorLog(), RatesObserver(self._rates, clock)
        self._observers: Observers[Observer] = Observers((*own, *observers))
        self._rounds = 0
        self._reader = Reader(store, self._context_of, self._observers)
        self._waiting = WaitingRequests()
        self._acquaintances = Acquaintances()
        self._presence_retry = PresenceRetry(self._acquaintances, self._wake)
        self._stopping = self._cutting = False
        self._end_by: float | None = None
        self.has_given_up = False
        """The store did not do in time what was to be done before the end."""
        self._work = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._task = Task("broker", self._run)

    def adopt(
        self,
        *,
        policy: CreationPolicy,
        limits: Limits,
        max_subscriptions: int,
        auto_creation: AutoCreation,
        operators: Iterable[Jid] = (),
        quotas: Quotas = QUOTAS,
    ) -> None:
        """Judge by these from the next batch on."""
        self._judging = replace(
            self._judging,
            policy=policy,
            limits=limits,
            max_subscriptions=max_subscriptions,
            auto_creation=auto_creation,
            operators=frozenset(operators),
            quotas=quotas,
        )

    def serve_as(self, instance: Instance) -> None:
        """Be this process among those that serve from the store; before the work begins."""
        self.instance = instance
        self.undelivered.serve_as(instance)

    def start(self) -> None:
        """Begin to work. Starting twice does no harm."""
        if not self._task.is_started:
            self._stopping = self._cutting = self.has_given_up = False
            self._end_by = None
            self._task.start()

    @property
    def task(self) -> asyncio.Task[None]:
        """The task that does the work; it ends only by `stop`."""
        return self._task.running

    @property
    def service(self) -> Jid:
        """The address of the service, whose accounts have the addresses of connections."""
        return self._judging.service.jid

    @property
    def rounds(self) -> int | None:
        """How many rounds of work are done, None while nothing waits; one that stays the same for long hangs."""
        return None if self._quiet.is_set() else self._rounds

    async def stop(self) -> None:
        """Answer what is waiting, hand out nothing more, then stop. Stopping twice does no harm.

        What the store has not done in time is left to the next start, as after a kill: see `ENDING`.
        """
        self._stopping = True
        self._cut()
        self.pause()
        self._presence_retry.retry_now()
        await self._in_time(self._reader.settled())
        await self._reader.stop()
        if self._task.is_started and not self.task.done():
            await self._in_time(self._quiet.wait())
        await self._task.stop()

    async def _in_time(self, end: Awaitable[object]) -> None:
        """Wait for it as long as an end may take, from the first call on."""
        loop = asyncio.get_running_loop()
        if self._end_by is None:
            self._end_by = loop.time() + ENDING
        try:
            async with asyncio.timeout_at(self._end_by):
                await end
        except TimeoutError:
            self.has_given_up = True
            counts = {"requests": len(self._waiting), "reads": self._reader.waiting}
            log.error("end.given_up", **counts)  # noqa: TRY400  # no trace

    def now(self) -> Millis:
        """Return the time by which requests are judged."""
        return self._clock()

    @property
    def moment(self) -> Millis | None:
        """When something ends next, as far as is known: a lock, a pause, a life."""
        return self._moment

    def submit(self, request: Request, answer: Callable[[Reply], None]) -> None:
        """Have the request decided; `answer` is called once, after the commit that holds it.

        One that only reads is answered of what is committed when its turn comes, beside the batches. Who comes, who
        goes and what bounces is told once: refused for want of a store, it is kept and tried again.
        """
        if type(request) in READS:
            self._reader.submit(request, answer)  # type: ignore[arg-type]  # it is one of these
            return
        if type(request) is Arrive:
            self._newcomers.came(request.jid)
        self._waiting.add(request, answer)
        self._quiet.clear()
        self._work.set()

    def _wake(self) -> None:
        self._quiet.clear()
        self._work.set()

    async def handle(self, request: Request) -> Reply:
        """Have the request decided and return the reply after the commit that holds it.

        Is cancelled with the broker, if that stops before it has an answer.
        """
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(decided: Reply) -> None:
            if not reply.done():  # whoever asked may have been cancelled meanwhile
                reply.set_result(decided)

        self.submit(request, answer)
        task = self.task
        either: set[asyncio.Future[Any]] = {reply, task}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            task.result()
        return await reply

    def _note_unsent(self) -> None:
        self.undelivered.fail()

    def _reach_others(self) -> None:
        """Hand out to whom can be reached by now, what has been waiting first; stop when that is nobody."""
        self._committer.reaches_others()
        if self.outbox.is_open and not self._stopping:
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
        if isinstance(reply, Refused):  # all windows are counted anew with the next rows
            asyncio.get_running_loop().call_later(RETRY, self.look_around)

    def look_around(self) -> None:
        """Look at every node: another process may have left items to hand out, or locks to end."""
        self._dispatch.look_around()
        self._wake()

    def pause(self) -> None:
        """Hand out nothing more until a face comes up; requests are still answered."""
        self._dispatch.stop()
        self.undelivered.flows = False

    async def drain(self, patience: float) -> None:
        """Answer what is waiting, for so many seconds; what has not begun by then is refused, and has not happened.

        A batch that is under way is waited for, but not for ever: see `ENDING`.

        The faces have to have stopped taking requests.
        """
        self._end_by = asyncio.get_running_loop().time() + ENDING
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.settled()
                self._cut()
                return await self.settled()
        self._cut()
        self._reader.refuse_waiting()
        left = self._waiting.take_all()
        for request, answer in left:
            if isinstance(request, Word):
                self._waiting.add(request, answer)  # said once: nobody would repeat it
            else:
                answer_with(answer, at_the_end(request))
        log.warning("drain.refused", requests=len(left) - len(self._waiting))
        return await self._in_time(self.settled())

    def _cut(self) -> None:
        """Begin no more slices of long work."""
        self._cutting = True
        self._long_work.end()

    async def settled(self) -> None:
        """Wait until nothing is waiting and nothing is being worked on. What waits for news to leave does not count."""
        while not (self._quiet.is_set() and self._reader.is_quiet):  # each may give the other work
            await self._quiet.wait()
            await self._reader.settled()

    async def _run(self) -> None:
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while self._waiting or self._dispatch or self._presence_retry.is_due:
                    await self._one_round()
                    self._rounds += 1
                self._quiet.set()
        finally:
            self._quiet.set()  # after the end nobody shall wait for what will not come

    async def _one_round(self) -> None:
        try:
            await self._one_batch()
        except (
            Exception
        ):  # the outermost boundary: what nobody has foreseen does not end the service
            log.exception("broker.failed", refused=len(self._waiting))
            taken = self._waiting.take_all()
            self._refuse(taken, Refusal.INTERNAL_FAULT)
            await asyncio.sleep(RETRY)

    async def _one_batch(self) -> None:
        if self._presence_retry.is_due:  # alone: what it meets is nobody else's
            taken, look = self._presence_retry.some(MAX_BATCH_ITEMS), False
        else:
            taken, look = self._waiting.take_batch(), self._dispatch.take_look()
        slices = [taken]
        while slices:
            taken = slices.pop(0)
            if self._presence_retry:
                taken = self._presence_retry.before(taken)
            requests = [request for request, _ in taken]
            try:
                done = await self._committer.commit(requests, everywhere=look)
            except Exception as problem:  # the boundary between this batch and the next one
                if len(requests) > 1 and may_be_of_one(problem):
                    half = len(requests) // 2
                    slices[:0] = [taken[:half], taken[half:]]
                else:
                    await self._lose(taken, refusal_of(problem, requests), problem, look=look)
            else:
                self._finish(taken, requests, done)
                look = False

    def _look_later(self) -> None:
        asyncio.get_running_loop().call_later(LATER, self._look_again)

    def _look_again(self) -> None:
        if self._dispatch.is_on:
            self.look_around()

    async def _lose(
        self, taken: Sequence[Taken], whose: Refusal, problem: Exception, *, look: bool
    ) -> None:
        """Tell those whose batch came to nothing: the store's trouble passes, a fault of ours stays."""
        if self._cutting and isinstance(problem, FencedError):
            log.info("batch.late", requests=len(taken))  # it has left in order: who asks is itself
        elif whose is Refusal.STORE_FAILED:
            log.error("batch.lost", requests=len(taken), why=str(problem))
        else:
            names = sorted({type(request).__name__ for request, _ in taken})
            log.error("batch.failed", requests=names, exc_info=problem)
        self._dispatch.lost(look=look)
        self._refuse(taken, whose)
        if not taken:
            await asyncio.sleep(1)  # only the kick is left to try again: not in a hot loop

    def _refuse_waiting(self) -> None:
        """Tell those who wait behind a batch that does not end."""
        taken = self._waiting.take_all()
        if taken:
            log.error("batch.stalled", refused=len(taken))
        self._refuse(taken)

    def _refuse(self, taken: Sequence[Taken], refusal: Refusal = Refusal.STORE_FAILED) -> None:
        for request, answer in taken:
            if isinstance(request, Word) and refusal is Refusal.STORE_FAILED:
                self._keep(request)
            answer_with(answer, so_far(request) or Refused(refusal))

    def _keep(self, word: Word) -> None:
        """Keep what nobody repeats, and try it again in a while; by then another instance may serve a later session."""
        if type(word) is Leave and word.at is None:
            word = replace(word, at=self._clock())
        self._presence_retry.keep(word)
        if not self._stopping:
            self._presence_retry.retry_later()

    def _finish(
        self, taken: Sequence[Taken], requests: Sequence[Request], done: BatchResult
    ) -> None:
        """Speak of what is committed now."""
        self._committer.shrink()
        self._speaker.answer(taken, done.decisions, last=self._cutting)
        with apart("learn.failed"):
            self._learn(requests, done)
        self._dispatch.committed(done.rest, done.looked)
        if done.deliveries:
            self._speaker.say(done.deliveries)
        self._observers.committed(requests, done.decisions, done.deliveries, self._committer.took())
        with apart("delivery_mark.failed"):
            self.undelivered.said(self._committer.next_token())
        with apart("moment.failed"):
            self._note_moment(done)

    def _learn(self, requests: Sequence[Request], done: BatchResult) -> None:
        """Remember who is somebody here, for the time when the store cannot be asked."""
        for request, decision in zip(requests, done.decisions, strict=True):
            if type(request) in SHOWING:
                self._acquaintances.learn(decision)
            elif type(request) is Leave:
                self._newcomers.left(request.jid)
        for jid in {notice.to for notice in done.deliveries}:
            self._acquaintances.meet(jid)

    @property
    def waiting(self) -> Waiting:
        """What waits at this moment."""
        return Waiting(len(self._waiting), self._reader.waiting, self._fan_out.byte_count)

    def _ask(self, request: Ask, answer: Callable[[Reply], None]) -> None:
        """Have a page of a crowd read; what is not told when the service stops is told to nobody, or at the next start."""
        if not (self._stopping or self._cutting):
            self.submit(request, answer)

    def _note_moment(self, done: BatchResult) -> None:
        if done.exact:
            self._moment = done.soonest
        elif done.soonest is not None:
            known = self._moment
            self._moment = done.soonest if known is None else min(known, done.soonest)
        self._on_moment(self._moment)

    def _context_of(self, rows: WorkingSet) -> Context:
        return replace(self._judging, rows=rows, now=self._clock())
