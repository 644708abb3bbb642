"""One batch: load what all its requests need, decide each, deliver, write, in one transaction.

In the working set each request sees the changes of the requests before it. If a request fails while its changes are
made, the batch is spoilt: it is rolled back and run again, and that request is refused.

Only the work for one request is within its boundary: collect its needs, decide, make its changes. Loading and writing are
steps of the batch. An error there cannot be attributed to a request yet, so it ends the batch.
"""

from __future__ import annotations

from collections.abc import (
    Mapping,  # noqa: TC003  # msgspec reads it
    Sequence,  # noqa: TC003  # msgspec reads it
)
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.dispatch import LOOKED_AT, give_turns, hand_out, look_around
from pubqueue.engine.facts.queue import for_ended, for_joined
from pubqueue.engine.listings import MovedTo
from pubqueue.engine.observe import Took
from pubqueue.engine.ports import StaleError, StoreError, UnfitError
from pubqueue.engine.table import AHEAD_OF, RULES, fault_of
from pubqueue.engine.tentative import FinalNumbers, TentativeChanges
from pubqueue.engine.working_set import OfOneRequest, WorkingSet
from pubqueue.engine.writes import ABSENT
from pubqueue.model.changes import SetAvailable
from pubqueue.model.decision import DecidedInParts, Decision, Refusal, Refused, refuse, steps
from pubqueue.model.transactions import SWEPT_BYTES, Sweep
from pubqueue.rules.ahead import told as notices_of_recalled
from pubqueue.rules.asks import ENDINGS, ended, news, with_news
from pubqueue.rules.damage import SETTINGS_DAMAGED
from pubqueue.rules.declare import Declare
from pubqueue.rules.discovery import Describe
from pubqueue.rules.expire import Expire
from pubqueue.rules.joins import CountMembers, with_counts
from pubqueue.rules.joins import count as count_members
from pubqueue.rules.nodes import Configure, Delete
from pubqueue.rules.together import (
    Together,
    Volume,
    names_by_node,
    part_of_many,
    together,
    unfit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from pubqueue.engine.context import Context, Contexts
    from pubqueue.engine.dispatch import PendingDispatch
    from pubqueue.engine.listings import Place
    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.engine.redelivery import Undelivered
    from pubqueue.engine.windows import Takers
    from pubqueue.model.changes import Count
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Jid, Millis, NodeName
    from pubqueue.model.notices import Deliver, Notice
    from pubqueue.rules.publication import Publish
    from pubqueue.rules.settle import Settle


log = structlog.get_logger(__name__)

AHEAD: Final = 128
"""The maximum number of requests whose needs are gathered together."""

FAILED: Final = refuse(Refusal.INTERNAL_FAULT)
"""The answer to a request that met a fault of ours."""

MAX_WORK: Final = 2_000
"""Work (`Decision.work`) after which a batch takes no further request. A publish to a node that feeds queues may be much work."""

MAX_FREED: Final = SWEPT_BYTES
"""Bytes of items that end after which a batch takes no further request: some stores free them in the commit."""

ROUNDS: Final = 16
"""The maximum rounds of loading that a request can need; more of them are a fault of ours."""


class BatchResult(Struct, frozen=True, gc=False):
    """The result of a batch: a decision for each request, in order, and the deliveries.

    There are fewer decisions than requests if the first requests were much work. The others are left for later batches.

    `soonest` is the next time at which something that the batch has changed ends; if `exact`, it holds for the whole
    store. `rest` are the nodes that may have more to deliver. `looked` is the position of a look around that has not
    reached its end.
    """

    decisions: tuple[Decision, ...]
    deliveries: tuple[Notice, ...]
    soonest: Millis | None
    exact: bool
    rest: tuple[NodeName, ...] = ()
    looked: Place | None = None
    taken: Mapping[int, Sequence[Deliver]] = {}
    """Deliveries to takes, by the numbers of the takes, which they answer."""
    ended: Mapping[int, Refusal] = {}
    """Takes that may no longer wait, each with the reason."""
    next_token: int = 0
    """The token of the next lock, 0 if it is not known."""


class SpoiltError(Exception):
    """The changes of a request could not be made: a fault of ours. `at` is its index among the requests."""

    def __init__(self, at: int) -> None:
        super().__init__(f"the changes of request {at} of a batch could not be made")
        self.at = at


class UndeliverableError(Exception):
    """Dispatch failed, by a fault of ours: the requests are to be decided without deliveries."""


class Batch:
    """Decides requests within one transaction; those with an index in `spoilt` failed in an earlier attempt."""

    def __init__(
        self, context: Context, changes: ChangeApplier, spoilt: Container[int] = ()
    ) -> None:
        self._context = context
        self._rows = context.rows
        self._changes = changes
        self._spoilt = spoilt

    def decide_all(self, requests: Sequence[Request]) -> list[Decision]:
        """Decide the requests in order, until that is much work. Only a request that fails is refused.

        Raises:
            SpoiltError: the changes of a request could not be made, and the transaction has to be rolled back.

        """
        decisions: list[Decision] = []
        faults = list(map(fault_of, requests))
        work = freed = 0
        for at, request in enumerate(requests):
            decision = FAILED if at in self._spoilt else self.decide(requests, faults, at)
            if self._rows.cache.silent:
                for one in request.parts if type(request) is Together else (request,):
                    self._note_activity(one)
            if decision.changes:
                decision = self._make(at, request, decision)
                tells = False
                for change in decision.changes:  # without a call: hardly any is of a question
                    kind = type(change)
                    if kind in ENDINGS:
                        freed += change.item.size  # type: ignore[union-attr]  # these have an item
                        tells = tells or bool(change.item.headers)  # type: ignore[union-attr]
                    elif kind is Sweep:
                        tells = tells or bool(change.orphans)  # type: ignore[union-attr]  # as it says
                if tells:
                    decision = self._tell_askers(at, request, decision)
                work += decision.work
            decisions.append(decision)
            if work > MAX_WORK or freed > MAX_FREED:
                break
        return decisions

    def _make(self, at: int, request: Request, decision: Decision) -> Decision:
        """Make the changes of a decision; return it with what became of joins by them."""
        if not self._changes.AT_ONCE.isdisjoint(map(type, decision.changes)):
            self._rows.flush()  # the changes of other requests are not written within this one's boundary
        try:
            whole = ((request, decision.changes),)
            in_parts = type(decision) is DecidedInParts
            for asked, changes in steps(request, decision) if in_parts else whole:
                self._changes.make(asked, changes)
        except StoreError:
            raise
        except Exception as problem:  # the boundary between requests
            _log_refusal(request)
            raise SpoiltError(at) from problem
        return self._count(at, request, decision) if self._changes.joined else decision

    def _count(self, at: int, request: Request, decision: Decision) -> Decision:
        """Count, in this commit, what the decision did to members of joins; a join that is complete is woken.

        It is looked at after all changes of the decision, so a join that gets members and is closed at once does not wake before these.
        """
        try:
            counts = count_joined(self._context, self._changes)
        except StoreError:
            raise
        except Exception as problem:  # the boundary between requests
            _log_refusal(request)
            raise SpoiltError(at) from problem
        return with_counts(request, decision, counts) if counts else decision

    def _tell_askers(self, at: int, request: Request, decision: Decision) -> Decision:
        """Publish, in this commit, how the questions have ended that the decision ends."""
        try:
            said = self._news(request, decision)
        except StoreError:
            raise
        except Exception:  # the boundary between a death and what is said of it
            _log_refusal(request)
            return decision
        faults = list(map(fault_of, said))
        told: list[tuple[Publish | Settle, Decision]] = []
        for number, one in enumerate(said):
            its = self.decide(said, faults, number)
            if its.changes:
                told.append((one, self._make(at, one, its)))
        return with_news(request, decision, told) if told else decision

    def _news(self, request: Request, decision: Decision) -> list[Publish | Settle]:
        """Return the requests that say how questions have ended."""
        parts = steps(request, decision)
        found = [one for asked, changes in parts for one in ended(asked, changes)]
        if not found:
            return []
        facts = for_ended(self._context, found)
        if self._rows.lacking:
            self._rows.load()
            facts = for_ended(self._context, found)
        each = zip(found, facts, strict=True)
        all_news = [news(one, self._context.principal(one.author), known) for one, known in each]
        return [one for one in all_news if one is not None]

    def _note_activity(self, request: Request) -> None:
        """Count any request about a node, also a refused one, as a sign of life of the account's subscriptions there."""
        by, node = getattr(request, "by", None), getattr(request, "node", None)
        if by is None or node is None:
            return
        silent = self._rows.cache.silent
        active = [jid for jid in dict.fromkeys((by.jid, by.account)) if (node, jid) in silent]
        if active:
            self._changes.make(request, [SetAvailable(node, jid, available=True) for jid in active])

    def decide(
        self, requests: Sequence[Request], faults: Sequence[Refused | None], at: int
    ) -> Decision:
        """Decide one request, after loading all that it needs; nothing is loaded for one with a fault."""
        if (no := faults[at]) is not None:
            return Decision(no)
        rows, request = self._rows, requests[at]
        if type(request) is Together:
            return self._decide_parts(request)
        rows.of_one = OfOneRequest()
        for _ in range(ROUNDS):
            try:
                decision = decided(self._context, request)
            except StoreError:
                raise
            except Exception:  # the boundary between requests: what fails has changed nothing
                _log_refusal(request)
                return FAILED
            if decision is not None:
                return decision
            ahead = slice(at + 1, at + AHEAD)
            self._gather(requests[ahead], faults[ahead])
            rows.load()
        log.error("request.failed", request=type(request).__name__, why="it needs ever more")
        return FAILED

    def _decide_parts(self, request: Together) -> Decision:
        """Decide each part on the rows as the parts before it would leave them; nothing is changed yet."""
        if (no := unfit(request)) is not None:
            return Decision(no)
        tentative = TentativeChanges(self._rows, self._changes.now, names_by_node(request))
        decisions: list[Decision] = []
        parts = tuple(map(part_of_many, request.parts))
        faults = list(map(fault_of, parts))
        volume = Volume()
        try:
            with tentative.shown():
                for at, part in enumerate(parts):
                    decision = self.decide(parts, faults, at)
                    if (no := volume.exceeded_by(decision)) is not None:
                        decision = Decision(no)
                    if decision.changes:
                        decision = tentative.tried(part, decision)
                    decisions.append(decision)
                    if type(decision.reply) is Refused:
                        return together(request, decisions)
        except StoreError:
            raise
        except Exception:  # the boundary between requests: what fails has changed nothing
            _log_refusal(request)
            return FAILED
        final = FinalNumbers(self._rows)
        return together(request, [final.of(decision) for decision in decisions])

    def _gather(self, requests: Iterable[Request], faults: Iterable[Refused | None]) -> None:
        """Collect the needs of the next requests, so that they are loaded together with those of this one."""
        rows = self._rows
        rows.gathering = True
        for request, fault in zip(requests, faults, strict=True):
            try:
                if fault is None:
                    AHEAD_OF[type(request)](self._context, request)
            except Exception:  # noqa: S112  # it fails again when its turn comes, and is logged then
                continue
        rows.gathering = False


def count_joined(context: Context, changes: ChangeApplier) -> tuple[Count, ...]:
    """Count what the changes so far did to members of joins, and return what becomes of the joins."""
    rows, joined = context.rows, changes.joined
    changes.joined = {}
    met = for_joined(context, joined)
    while rows.lacking:
        rows.load()
        met = for_joined(context, joined)
    counts = count_members(met, context.now)
    if counts:
        changes.make(CountMembers(), counts)
    return counts


def decided(context: Context, request: Request) -> Decision | None:
    """Decide a request on the rows that are loaded; return None if it needs more."""
    facts_of, rule, _ = RULES[type(request)]
    facts = facts_of(context, request)
    if context.rows.lacking:
        return None
    if context.rows.met_damage and _is_about_closed(context.rows, request):
        return SETTINGS_DAMAGED
    decision = rule(request, facts)
    if type(decision.reply) is Refused:
        return _redirected(context.rows, request, decision)
    return decision


def _is_about_closed(rows: WorkingSet, request: Request) -> bool:
    """Return whether the request is about a node whose settings are damaged, and does not set them again or delete the node."""
    if type(request) in {Configure, Declare, Delete, Describe}:
        return False
    node = rows.cache.nodes.get(getattr(getattr(request, "publish", request), "node", None))  # type: ignore[arg-type]  # None is no node
    return node is not None and node.damaged


def _redirected(rows: WorkingSet, request: Request, decision: Decision) -> Decision | None:
    """Return the decision; if the node is gone and another has replaced it, refer to that node (XEP-0060 8.4.1)."""
    reply = decision.reply
    if not isinstance(reply, Refused) or reply.refusal is not Refusal.NODE_NOT_FOUND:
        return decision
    name = getattr(getattr(request, "publish", request), "node", None)
    if name is None or rows.cache.nodes.get(name, ABSENT) is not None:
        return decision
    moved = rows.page(MovedTo(name))
    if rows.lacking:
        return None
    return refuse(Refusal.MOVED, moved[0]) if moved else decision


def _log_refusal(request: Request) -> None:
    """Log a fault of ours; called in the exception's handler."""
    log.error("request.failed", request=type(request).__name__, exc_info=True)  # noqa: LOG014  # within the handler


def run(
    context: Context,
    changes: ChangeApplier,
    tx: Transaction,
    requests: Sequence[Request],
    *,
    dispatching: bool,
    everywhere: bool,
    rest: Sequence[NodeName] = (),
    looked: Place | None = None,
    spoilt: Container[int] = (),
) -> BatchResult:
    """Do the requests, then, if `dispatching`, deliver items of the nodes that they touched.

    The nodes in `rest` of the batch before come first. `everywhere` also looks for other nodes with something to
    deliver, touched or not, from where the batch before stopped (`looked`). `spoilt` are the indexes of requests that
    are refused without being decided.

    Raises:
        SpoiltError: the changes of a request could not be made; the transaction has to be rolled back.
        UndeliverableError: dispatch failed; likewise.

    """
    decisions = Batch(context, changes, spoilt).decide_all(requests)
    if changes.groups:
        give_turns(context, changes)
    deliveries: list[Notice] = []
    left: list[NodeName] = []
    if dispatching:
        try:
            deliveries, left, looked = _deliver(
                context, changes, rest, looked, everywhere=everywhere
            )
        except StoreError:
            raise
        except Exception as problem:  # the boundary between the requests and the deliveries
            raise UndeliverableError from problem
    if changes.joined:  # an item that was to be delivered has ended
        count_joined(context, changes)
    context.rows.flush()
    exact = everywhere or changes.unsure
    moments = [tx.next_due() if exact else changes.soonest_or_none()]
    if dispatching:
        moments += changes.waits.next(), changes.held_back.next()
    return BatchResult(
        tuple(decisions),
        (*(notices_of_recalled(changes.recalled) if changes.recalled else ()), *deliveries),
        min((moment for moment in moments if moment is not None), default=None),
        exact,
        tuple(left),
        looked,
        changes.takes.taken,
        changes.takes.ended,
        context.rows.pending.tokens.next,
    )


def _deliver(
    context: Context,
    changes: ChangeApplier,
    rest: Sequence[NodeName],
    looked: Place | None,
    *,
    everywhere: bool,
) -> tuple[list[Notice], list[NodeName], Place | None]:
    """Deliver items; return the notices, the nodes that may have more, and where a look for other nodes has stopped."""
    nodes = dict.fromkeys(rest)
    if everywhere:
        if looked is None:
            changes.takes.look_again()
        found, looked = look_around(context.rows, looked)
        nodes |= dict.fromkeys(found)
    if changes.takes:
        nodes |= dict.fromkeys(changes.takes.to_look(LOOKED_AT))
    deliveries, left = hand_out(context, changes, nodes)
    return deliveries, left + changes.takes.to_look(LOOKED_AT), looked


def read(context: Context, request: Request) -> Decision:
    """Decide a request that changes nothing, on rows loaded for it alone."""
    if (no := fault_of(request)) is not None:
        return Decision(no)
    for _ in range(ROUNDS):
        decision = decided(context, request)
        if decision is not None:
            return decision
        context.rows.load()
    raise RuntimeError(f"{type(request).__name__} needs ever more")


# Commits batches: each in one transaction, retried from fresh rows while that can help.
#
# The cache is cleared after a failed attempt.


class Committed(Struct, frozen=True, gc=False):
    """A committed batch: its result, how long it took, and whether dispatch failed, so that it has no deliveries."""

    done: BatchResult
    took: Took
    is_undeliverable: bool


class Committer:
    """Runs one batch after the other, on rows that it caches between them.

    In each transaction `undelivered` records up to which token deliveries have been sent.
    """

    def __init__(
        self,
        store: Store,
        contexts: Contexts,
        dispatch: PendingDispatch,
        undelivered: Undelivered,
        *,
        reaches: Callable[[Jid], bool],
        takers: Takers,
    ) -> None:
        self.store, self._contexts = store, contexts
        self._dispatch, self._undelivered = dispatch, undelivered
        self.rows = WorkingSet(contexts.damage.note)
        self._changes = ChangeApplier(self.rows, reaches, takers)
        self._are_windows_old = False
        self._began = self._decided = 0.0

    def end_damaged(self) -> None:
        """Have the items ended that the last batch found damaged."""
        self._contexts.damage.end()

    async def commit(self, requests: Sequence[Request], *, everywhere: bool) -> Committed:
        """Commit one batch; if another process has changed its rows, retry once from fresh ones.

        A request whose changes cannot be made is refused in a further attempt. `everywhere`: look for items to deliver
        in all nodes.

        Raises:
            StoreError: the store could not commit it.
            StaleError: not even from fresh rows.
            Exception: a fault of ours. In each of these cases nothing has been committed.

        """
        spoilt: set[int] = set()
        stale, undeliverable, dispatching = False, False, self._dispatch.is_on
        while True:
            try:
                job = partial(self.work_in, requests, everywhere, dispatching, spoilt)
                done = await self.store.batch(job)
                return Committed(done, self._took(), undeliverable)
            except SpoiltError as problem:
                self.forget()
                spoilt.add(problem.at)
            except UndeliverableError:
                self.forget()
                undeliverable, dispatching = True, False
                log.exception("dispatch.failed")
            except StaleError:
                self.forget()
                if stale:
                    raise
                stale = True
                log.info("batch.stale", requests=len(requests))
            except BaseException:
                self.forget()
                raise

    def work_in(
        self,
        requests: Sequence[Request],
        everywhere: bool,  # noqa: FBT001
        dispatching: bool,  # noqa: FBT001
        spoilt: set[int],
        tx: Transaction,
    ) -> BatchResult:
        """Do the batch in a transaction, up to its commit."""
        self._began = perf_counter()
        context = self._contexts.of(self.rows)
        self.rows.begin(tx)
        self._undelivered.note(tx, context.now)
        if self._are_windows_old:
            self._are_windows_old = False
            self.rows.cache.windows.clear()
        self._changes.begin(context.now, foreign=tx.foreign)
        done = run(
            context,
            self._changes,
            tx,
            requests,
            dispatching=dispatching,
            everywhere=everywhere,
            rest=self._dispatch.rest,
            looked=self._dispatch.looked,
            spoilt=spoilt,
        )
        self._decided = perf_counter()
        return done

    def _took(self) -> Took:
        return Took(self._decided - self._began, perf_counter() - self._decided)

    def reaches_others(self) -> None:
        """Forget which addresses can be reached: that has changed."""
        self._are_windows_old = True

    def forget(self) -> None:
        """Forget all rows; they are loaded again when they are needed."""
        self._changes.forget()

    def shrink(self) -> None:
        """Forget rows until the cache is within its bounds."""
        try:
            self.rows.cache.shrink()
        except Exception:  # the cache is a copy: it is loaded again
            log.exception("cache.failed")
            self.forget()


def may_be_of_one(problem: Exception) -> bool:
    """Return whether one request of a batch may be the cause, so that the others can be decided without it."""
    return isinstance(problem, StaleError | UnfitError) or not isinstance(problem, StoreError)


def refusal_of(problem: Exception, requests: Sequence[Request]) -> Refusal:
    """Return the answer to requests whose batch failed.

    Requests of the clock are decided on fresh rows: if they are stale, one of these rows contradicts the others.
    """
    of_store = isinstance(problem, StoreError) and not isinstance(problem, UnfitError)
    of_clock = any(isinstance(request, Expire) for request in requests)
    if of_store and not (of_clock and isinstance(problem, StaleError)):
        return Refusal.STORE_FAILED
    return Refusal.INTERNAL_FAULT
