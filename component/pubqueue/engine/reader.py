"""Answers requests that only read, outside the batches: workers do not wait for them, and they do not wait for commits.

Accounts take turns: an account that requests a thousand pages at once delays only itself. Answers
to one account keep the order of its requests.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import structlog

from pubqueue.engine.batch import read
from pubqueue.engine.ports import StoreError
from pubqueue.engine.task import Task, answer_with, no_longer_behind
from pubqueue.engine.working_set import WorkingSet
from pubqueue.model.decision import Cancelled, Done, Redriven, Refusal, Refused, refuse
from pubqueue.model.entities import account_of
from pubqueue.model.notices import ToAll, ToEach
from pubqueue.model.records import MessagesEnded
from pubqueue.model.replies import Freed
from pubqueue.model.transactions import AtWork, Committed, Phase
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.commit import LookAtWinners
from pubqueue.rules.dead_letters import Discard, Redrive
from pubqueue.rules.messages import DropMessages
from pubqueue.rules.moving import MoveWinners
from pubqueue.rules.publish import FeedSlice
from pubqueue.rules.seek import SeekItems
from pubqueue.rules.trimming import TrimItems
from pubqueue.rules.unlock import FreeHeld

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.context import Contexts
    from pubqueue.engine.fan_out import FanOut
    from pubqueue.engine.observe import Observer, Observers
    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.model.decision import Decision, Read, Reply, Request
    from pubqueue.model.entities import Jid, NodeName
    from pubqueue.rules.commit import CommitVersion

    Place = tuple[type, NodeName]
    Answer = Callable[[Reply], None]


log = structlog.get_logger(__name__)


ENDING: Final = Refused(Refusal.STORE_FAILED, "the service is stopping")
"""The answer to requests that are not begun when the service stops. They had no effect and may be repeated."""


STALE_AFTER: Final = 60.0
"""Seconds for which the refusal of a commit is kept for a requester that asks for its progress."""

KEPT_OUTCOMES: Final = 64
"""How many outcomes of large commits are kept."""

FAILED: Final = Refused(Refusal.STORE_FAILED)
"""The answer to requests that are not begun because the store does not answer."""


class Reader:
    """Answers requests that change nothing, one of each account in turn."""

    def __init__(
        self,
        store: Store,
        contexts: Contexts,
        observers: Observers[Observer],
    ) -> None:
        self._store = store
        self._observers = observers
        self._contexts = contexts
        self._waiting: dict[Jid, deque[tuple[Read, Callable[[Reply], None]]]] = {}
        """Requests by account, the account whose turn is next first."""
        self._work = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.task = Task("reader", self._run)

    def submit(self, request: Read, answer: Callable[[Reply], None]) -> None:
        """Have the request answered from what is committed when its turn comes."""
        self.task.start()
        account = account_of(request.by.jid)
        self._waiting.setdefault(account, deque()).append((request, answer))
        self._quiet.clear()
        self._work.set()

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_quiet(self) -> bool:
        """Whether all requests are answered."""
        return self._quiet.is_set()

    async def settled(self) -> None:
        """Wait until all requests are answered."""
        await self._quiet.wait()

    def refuse_waiting(self) -> None:
        """Refuse the waiting requests, because the service stops."""
        self._refuse_waiting(ENDING)

    def _refuse_waiting(self, reply: Refused = FAILED) -> None:
        left, self._waiting = self._waiting, {}
        for mine in left.values():
            for _, answer in mine:
                self._answer(answer, reply)

    async def stop(self) -> None:
        """Stop; after `settled` all have been answered. Stopping twice does no harm."""
        await self.task.stop()

    async def _run(self) -> None:
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while self._waiting:
                    await self._answer_next()
                self._quiet.set()
        finally:
            self._quiet.set()  # after a fault no requester waits for an answer that will not come

    async def _answer_next(self) -> None:
        """Answer the request whose turn it is, and keep nothing of the answer: it may be large."""
        request, answer = self._next()
        decision = await self._decide(request)
        self._contexts.damage.end()
        if decision.then is None:
            self._answer(answer, decision.reply)
        else:
            self._go_on(cast("Read", decision.then), answer)
        del decision
        # the requester counts what it makes of the answer, before there is another one
        await asyncio.sleep(0)

    def _next(self) -> tuple[Read, Callable[[Reply], None]]:
        """Take the request whose turn it is; the account's next one comes after those of all other accounts."""
        account = next(iter(self._waiting))
        mine = self._waiting.pop(account)
        taken = mine.popleft()
        if mine:
            self._waiting[account] = mine
        return taken

    def _go_on(self, request: Read, answer: Callable[[Reply], None]) -> None:
        """Have the next slice of the request read after the turns of the other accounts."""
        account = account_of(request.by.jid)
        mine = self._waiting.pop(account, deque())
        mine.appendleft((request, answer))
        self._waiting[account] = mine

    async def _decide(self, request: Read) -> Decision:
        try:
            with no_longer_behind(self._refuse_waiting):
                return await self._store.read(partial(self._read, request))
        except StoreError as problem:
            log.error("read.failed", why=str(problem))  # noqa: TRY400  # an answer, no trace
            return refuse(Refusal.STORE_FAILED)
        except (
            Exception
        ):  # the boundary between requests: this one has failed, the next one is answered
            log.exception("request.failed", request=type(request).__name__)
            return refuse(Refusal.INTERNAL_FAULT)

    def _read(self, request: Read, tx: Transaction) -> Decision:
        rows = WorkingSet(self._contexts.damage.note)
        rows.begin(tx)
        return read(self._contexts.of(rows), request)

    def _answer(self, answer: Callable[[Reply], None], reply: Reply) -> None:
        self._observers.answered(reply)
        answer_with(answer, reply)


# Long work between two slices: the next slice starts after the notices of the last one are sent, so only those wait.


class _Run:
    """A requester that waits for the end of long work. `place` is the node and the kind of the work."""

    def __init__(self, answer: Answer, place: Place, under_way: dict[Place, int]) -> None:
        self._answer = answer
        self._under_way = under_way
        self._place: Place | None = None
        self.move(place)

    def move(self, place: Place | None) -> None:
        """Set the place of the work."""
        for where, by in ((self._place, -1), (place, 1)):
            if where is not None:
                self._under_way[where] = self._under_way.get(where, 0) + by
                if not self._under_way[where]:
                    del self._under_way[where]
        self._place = place

    def __call__(self, reply: Reply) -> None:
        """Answer the requester: the work is done, or the store failed."""
        self.move(None)
        self._answer(reply)


class _CommitRun:
    """A commit that goes in slices: how far it is, who waits for its end, and how it ended. It is the answer of its slices."""

    def __init__(self, commit: CommitVersion) -> None:
        items = sum(part.items for part in commit.parts)
        self._at = AtWork(commit.version, Phase.JUDGING, 0, items)
        self._waiting: list[Answer] = []
        self._refused_at = 0.0
        self.outcome: Reply | None = None

    def advance(self, request: object) -> None:
        """Note the next slice."""
        at, of = self._at, self._at.of
        if isinstance(request, LookAtWinners):
            self._at = AtWork(at.version, Phase.JUDGING, min(request.judged, of), of)
        elif isinstance(request, MoveWinners):
            self._at = AtWork(at.version, Phase.MOVING, min(request.moved, of), of)

    def tell(self, answer: Answer, *, progress: bool) -> None:
        """Answer with the end or the progress; without `progress` the end is waited for."""
        if self.outcome is not None:
            answer(self.outcome)
        elif progress:
            answer(self._at)
        else:
            self._waiting.append(answer)

    def __call__(self, reply: Reply) -> None:
        """Answer all who wait: the commit has ended, or the store failed."""
        self.outcome, self._refused_at = reply, time.monotonic()
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer_with(answer, reply)

    def is_stale(self, stored: Reply | None) -> bool:
        """Whether its outcome is no longer true: a commit whose mark the store has forgotten, or a refusal of long ago."""
        if isinstance(self.outcome, Committed):
            return not isinstance(stored, Committed)
        return self.outcome is not None and time.monotonic() - self._refused_at > STALE_AFTER


class CommitRuns:
    """The commits in slices that this process is at work on, and the outcomes of the last ones.

    A repeated request joins the commit that is under way: a second one beside it would only halve the pace of both.
    A refusal is returned once; the next request judges the winners again.
    """

    def __init__(self) -> None:
        self.runs: dict[tuple[object, ...], _CommitRun] = {}

    def join(self, decision: Decision, answer: Answer) -> Answer | None:
        """Return what answers the first slice of the decision's work, or None if the requester has its answer or waits for it."""
        commit = cast("LookAtWinners", decision.then).commit
        key = _same(commit)
        run = self.runs.get(key)
        if run is None or run.is_stale(decision.reply):
            if isinstance(decision.reply, Committed):  # by another process, or long ago
                answer(decision.reply)
                return None
            self._make_room()
            run = self.runs[key] = _CommitRun(commit)
            run.tell(answer, progress=commit.progress)
            return run
        run.tell(answer, progress=commit.progress)
        if run.outcome is not None and not isinstance(run.outcome, Committed):
            del self.runs[key]
        return None

    def _make_room(self) -> None:
        ended = [key for key, run in self.runs.items() if run.outcome is not None]
        for key in ended[: max(0, len(ended) - KEPT_OUTCOMES + 1)]:
            del self.runs[key]


def _same(commit: CommitVersion) -> tuple[object, ...]:
    """Return what the repetitions of a commit have in common, whichever connection they come from; its parts may be thousands."""
    asked = commit.parts, commit.totals, commit.on_taken, commit.dead_letter_node
    return commit.app, commit.version, commit.by.account, hash(asked)


class LongWork:
    """Keeps the next slice of long work until it may run; then submits it.

    Trims, reviews and seeks that another process may have left are restarted from time to time, because their end
    is not reported. If work of the same kind is under way on the node, nothing is restarted.
    """

    def __init__(self, fan_out: FanOut, submit: Callable[[Request, Answer], None]) -> None:
        self._fan_out = fan_out
        self._submit = submit
        self._waiting: dict[int, tuple[Request, Answer]] = {}
        self._count = itertools.count()
        self._under_way: dict[Place, int] = {}
        self.commits = CommitRuns()

    def go_on(self, decision: Decision, answer: Answer) -> None:
        """Run the next slice; answer the requester after the last one."""
        request = decision.then
        if isinstance(request, TrimItems | ReviewSubscribers | SeekItems):
            place = type(request), request.node
            if isinstance(answer, _Run):
                answer.move(place)
            elif request.reply is None and place in self._under_way:
                answer(Done())
                return
            else:
                answer = _Run(answer, place, self._under_way)
        elif isinstance(answer, _CommitRun):
            answer.advance(request)
        elif isinstance(request, LookAtWinners):
            joined = self.commits.join(decision, answer)
            if joined is None:
                return
            answer = joined
        nodes = {one.what.node for one in decision.notices if isinstance(one, ToEach | ToAll)}
        number = next(self._count)
        self._waiting[number] = cast("Request", decision.then), answer
        self._fan_out.when_sent(nodes, partial(self.sent, number))

    def sent(self, number: int) -> None:
        """Go on with the work of this number, since the notices of its last slice are sent."""
        taken = self._waiting.pop(number, None)
        if taken is not None:
            self._submit(*taken)

    def end(self) -> None:
        """Answer all requesters: the service stops."""
        left, self._waiting = self._waiting, {}
        for request, answer in left.values():
            answer_with(answer, at_the_end(request))


def at_the_end(request: Request) -> Reply:
    """Return the answer to work that is not done when the service stops; if begun, it continues at the next start."""
    if isinstance(request, MoveWinners | ReviewSubscribers | TrimItems | SeekItems | FeedSlice):
        return request.reply or Done()
    return so_far(request) or ENDING


def so_far(request: Request) -> Reply | None:
    """Return the answer to work that stops after some of its slices: what these have committed. None if it has no such answer."""
    match request:
        case FreeHeld():
            return Freed(request.node, request.freed)
        case Redrive() if request.after:
            return Redriven(request.node, request.count, request.after)
        case Discard() if request.after:
            return Cancelled(request.node, request.count, through=request.after)
        case DropMessages() if request.count:
            return MessagesEnded((), more=True, count=request.count)
        case _:
            return None
