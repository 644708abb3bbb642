"""One batch: load what all its requests need, decide each, hand out, write, in one transaction.

Each request sees what those before it have done, in the working set. One that fails while its changes are made has
spoilt the batch: that comes to nothing and is run again, and the one that failed is refused there.

Only what a request does alone is within its boundary: to say what it needs, to decide, to make its changes. To load and to
write are steps of the batch: what they meet is nobody's fault before it is known whose, and ends the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.app.dispatch.dispatcher import hand_out, look_around
from pubqueue.app.dispatch.group_turns import give_turns
from pubqueue.app.rules import AHEAD_OF, RULES
from pubqueue.app.store.listings import MovedTo
from pubqueue.app.store.ports import StoreError
from pubqueue.app.working_set.row_cache import ABSENT
from pubqueue.core.changes import SetAvailable
from pubqueue.core.decision import Decision, Refusal, Refused, refuse
from pubqueue.core.limits.request_sizes import too_many

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from pubqueue.app.facts.context import Context
    from pubqueue.app.rules import Request
    from pubqueue.app.store.listings import Place
    from pubqueue.app.store.ports import Transaction
    from pubqueue.app.working_set.change_applier import ChangeApplier
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.core.model import Millis, NodeName
    from pubqueue.core.notices import Notice

log = structlog.get_logger(__name__)

AHEAD: Final = 128
"""Requests whose needs are gathered together, at most."""

FAILED: Final = refuse(Refusal.INTERNAL_FAULT)
"""What a request is told that met a fault of ours."""

ROUNDS: Final = 16
"""Rounds of loading that a request can need at most; more of them are a fault of ours."""


class BatchResult(Struct, frozen=True, gc=False):
    """What a batch came to: a decision for each request, in order, and the deliveries.

    `soonest` is when something ends next of what the batch has changed; `exact` says that it holds for the whole
    store. `rest` are the nodes that may have more to hand out. `looked` is where a look around has come to, if it is
    not at its end.
    """

    decisions: tuple[Decision, ...]
    deliveries: tuple[Notice, ...]
    soonest: Millis | None
    exact: bool
    rest: tuple[NodeName, ...] = ()
    looked: Place | None = None


class SpoiltError(Exception):
    """The changes of a request could not be made: a fault of ours. `at` is its place among the requests."""

    def __init__(self, at: int) -> None:
        super().__init__(f"the changes of request {at} of a batch could not be made")
        self.at = at


class UndeliverableError(Exception):
    """Nothing could be handed out, by a fault of ours: what was asked is to be decided without it."""


class Batch:
    """Decides requests within one transaction; those at the places in `spoilt` failed in it before."""

    def __init__(
        self, context: Context, changes: ChangeApplier, spoilt: Container[int] = ()
    ) -> None:
        self._context = context
        self._rows = context.rows
        self._changes = changes
        self._spoilt = spoilt

    def decide_all(self, requests: Sequence[Request]) -> list[Decision]:
        """Decide the requests in order; one that fails is refused, the others are not.

        Raises:
            SpoiltError: the changes of a request could not be made, and what was made is worth nothing.

        """
        decisions: list[Decision] = []
        for at, request in enumerate(requests):
            decision = FAILED if at in self._spoilt else self._decide(requests, at)
            if self._rows.cache.silent:
                self._hear(request)
            if decision.changes:
                self._make(at, request, decision)
            decisions.append(decision)
        return decisions

    def _make(self, at: int, request: Request, decision: Decision) -> None:
        if not self._changes.AT_ONCE.isdisjoint(map(type, decision.changes)):
            self._changes.flush()  # what others have done is not written within this one's boundary
        try:
            self._changes.make(request, decision.changes)
        except StoreError:
            raise
        except Exception as problem:  # the boundary between requests
            _log_refusal(request)
            raise SpoiltError(at) from problem

    def _hear(self, request: Request) -> None:
        """Take any request about a node, a refused one too, for a sign of life of those who subscribe to it."""
        by, node = getattr(request, "by", None), getattr(request, "node", None)
        if by is None or node is None:
            return
        silent = self._rows.cache.silent
        heard = [jid for jid in dict.fromkeys((by.jid, by.account)) if (node, jid) in silent]
        if heard:
            self._changes.make(request, [SetAvailable(node, jid, available=True) for jid in heard])

    def _decide(self, requests: Sequence[Request], at: int) -> Decision:
        """Decide one request, once all that it needs is known."""
        rows = self._rows
        rows.begin_request()
        for _ in range(ROUNDS):
            try:
                decision = decided(self._context, requests[at])
            except StoreError:
                raise
            except Exception:  # the boundary between requests: what fails has changed nothing
                _log_refusal(requests[at])
                return FAILED
            if decision is not None:
                return decision
            self._gather(requests[at + 1 : at + AHEAD])
            rows.load()
        log.error("request.failed", request=type(requests[at]).__name__, why="it needs ever more")
        return FAILED

    def _gather(self, requests: Iterable[Request]) -> None:
        """Let the next requests say what they need, so that it is loaded with what is needed now."""
        rows = self._rows
        rows.gathering = True
        for request in requests:
            try:
                if too_many(request) is None:
                    AHEAD_OF[type(request)](self._context, request)
            except Exception:  # noqa: S112  # it fails again when its turn comes, and is told
                continue
        rows.gathering = False


def decided(context: Context, request: Request) -> Decision | None:
    """Decide a request on what is known, None if more is needed."""
    if (no := too_many(request)) is not None:
        return Decision(no)
    facts_of, rule = RULES[type(request)]
    facts = facts_of(context, request)
    if context.rows.lacking:
        return None
    decision = rule(request, facts)
    if type(decision.reply) is Refused:
        return _redirected(context.rows, request, decision)
    return decision


def _redirected(rows: WorkingSet, request: Request, decision: Decision) -> Decision | None:
    """Tell who asks for a node that is no more what has taken its place, if anything has (XEP-0060 8.4.1)."""
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
    """Log a fault of ours; called where it is handled."""
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
    """Do the requests, then, if `dispatching`, hand out items of the nodes they touched.

    Before these come the nodes that were the `rest` of the batch before. `everywhere` looks for others as well that
    have something to hand out, whether touched or not, behind where the batch before has `looked`. `spoilt` are the
    places of requests that are refused without a look.

    Raises:
        SpoiltError: the changes of a request could not be made; nothing of this may be kept.
        UndeliverableError: nothing could be handed out; likewise.

    """
    decisions = Batch(context, changes, spoilt).decide_all(requests)
    if changes.groups:
        give_turns(context, changes)
    deliveries: list[Notice] = []
    left: list[NodeName] = []
    if dispatching:
        nodes = dict.fromkeys(rest)
        try:
            if everywhere:
                found, looked = look_around(context.rows, looked)
                nodes |= dict.fromkeys(found)
            deliveries, left = hand_out(context, changes, nodes)
        except StoreError:
            raise
        except Exception as problem:  # the boundary between what is asked and what is handed out
            raise UndeliverableError from problem
    changes.flush()
    exact = everywhere or changes.unsure
    soonest = tx.next_due() if exact else changes.soonest_or_none()
    for waits in (changes.waits.next(), changes.held_back.next()) if dispatching else ():
        if waits is not None:
            soonest = waits if soonest is None else min(soonest, waits)
    return BatchResult(tuple(decisions), tuple(deliveries), soonest, exact, tuple(left), looked)


def read(context: Context, request: Request) -> Decision:
    """Decide a request that changes nothing, on rows that only it sees."""
    for _ in range(ROUNDS):
        decision = decided(context, request)
        if decision is not None:
            return decision
        context.rows.load()
    raise RuntimeError(f"{type(request).__name__} needs ever more")
