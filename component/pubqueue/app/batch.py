"""One batch: load what all its requests need, decide each, hand out, write, in one transaction.

Each request sees what those before it have done, in the working set. One that fails is undone there alone, unless
something of it was written already: then the whole batch is run again, without its company.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.app.dispatcher import hand_out
from pubqueue.app.ports import StaleError, StoreError
from pubqueue.app.rules import RULES
from pubqueue.core.changes import SetAvailable
from pubqueue.core.decision import Decision, Refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.app.change_applier import ChangeApplier
    from pubqueue.app.facts.context import Context
    from pubqueue.app.ports import Transaction
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Notice
    from pubqueue.core.model import Millis, NodeName

log = structlog.get_logger(__name__)

AHEAD: Final = 128
"""Requests whose needs are gathered together, at most."""

ROUNDS: Final = 16
"""Rounds of loading that a request can need at most; more of them are a fault of ours."""


class FaultError(StaleError):
    """A request met a fault of ours after a part of it was written; nothing of the batch has happened."""


class BatchResult(Struct, frozen=True, gc=False):
    """What a batch came to: a decision for each request, in order, and the deliveries.

    `soonest` is when something ends next of what the batch has changed; `exact` says that it holds for the whole
    store. `rest` are the nodes that may have more to hand out.
    """

    decisions: tuple[Decision, ...]
    deliveries: tuple[Notice, ...]
    soonest: Millis | None
    exact: bool
    rest: tuple[NodeName, ...] = ()


class Batch:
    """Decides requests within one transaction."""

    def __init__(self, context: Context, changes: ChangeApplier, tx: Transaction) -> None:
        self._context = context
        self._rows = context.rows
        self._changes = changes
        self._tx = tx

    def decide_all(self, requests: Sequence[Request]) -> list[Decision]:
        """Decide the requests in order; one that fails is refused, the others are not."""
        return [self._one(requests, at) for at in range(len(requests))]

    def _one(self, requests: Sequence[Request], at: int) -> Decision:
        try:
            decision = self._decide(requests, at)
        except StoreError:
            raise
        except Exception:  # the boundary between requests: this one has failed, and changed nothing
            return _failed(requests[at])
        if self._rows.cache.silent:
            self._hear(requests[at])
        if decision.changes:
            try:
                self._changes.begin_request()
                self._changes.make(requests[at], decision.changes)
            except StoreError:
                raise
            except Exception as problem:  # the same boundary
                if self._changes.flushed:
                    raise FaultError("a request failed after a part of it was written") from problem
                self._rows.cache.undo()
                return _failed(requests[at])
        return decision

    def _hear(self, request: Request) -> None:
        """Take any request about a node, a refused one too, for a sign of life of those who subscribe to it."""
        by, node = getattr(request, "by", None), getattr(request, "node", None)
        if by is None or node is None:
            return
        silent = self._rows.cache.silent
        heard = [jid for jid in dict.fromkeys((by.jid, by.account)) if (node, jid) in silent]
        if heard:
            self._changes.begin_request()
            self._changes.make(request, [SetAvailable(node, jid, available=True) for jid in heard])

    def _decide(self, requests: Sequence[Request], at: int) -> Decision:
        """Decide one request, once all that it needs is known."""
        request, rows = requests[at], self._rows
        facts_of, rule = RULES[type(request)]
        for _ in range(ROUNDS):
            facts = facts_of(self._context, request)
            if not rows.lacking:
                return rule(request, facts)
            self._gather(requests[at + 1 : at + AHEAD])
            rows.load()
        raise RuntimeError(f"{type(request).__name__} needs ever more")

    def _gather(self, requests: Iterable[Request]) -> None:
        """Let the next requests say what they need, so that it is loaded with what is needed now."""
        rows = self._rows
        rows.gathering = True
        for request in requests:
            try:
                RULES[type(request)][0](self._context, request)
            except Exception:  # noqa: S112  # it fails again when its turn comes, and is told
                continue
        rows.gathering = False


def _failed(request: Request) -> Decision:
    """Answer a request that met a fault of ours; called where the fault is handled."""
    log.error("request.failed", request=type(request).__name__, exc_info=True)  # noqa: LOG014  # within the handler
    return refuse(Refusal.INTERNAL_FAULT)


def run(
    context: Context,
    changes: ChangeApplier,
    tx: Transaction,
    requests: Sequence[Request],
    *,
    dispatching: bool,
    everywhere: bool,
    rest: Sequence[NodeName] = (),
) -> BatchResult:
    """Do the requests, then, if `dispatching`, hand out items of the nodes they touched.

    Before these come the nodes that were the `rest` of the batch before. `everywhere` looks at all
    nodes, whether touched or not.
    """
    decisions = Batch(context, changes, tx).decide_all(requests)
    deliveries: list[Notice] = []
    left: list[NodeName] = []
    if dispatching:
        nodes = dict.fromkeys(rest)
        deliveries, left = hand_out(context, changes, nodes, everywhere=everywhere)
    changes.flush()
    exact = everywhere or changes.unsure
    soonest = tx.next_due() if exact else changes.soonest_or_none()
    return BatchResult(tuple(decisions), tuple(deliveries), soonest, exact, tuple(left))


def read(context: Context, request: Request) -> Decision:
    """Decide a request that changes nothing, on rows that only it sees."""
    facts_of, rule = RULES[type(request)]
    for _ in range(ROUNDS):
        facts = facts_of(context, request)
        if not context.rows.lacking:
            return rule(request, facts)
        context.rows.load()
    raise RuntimeError(f"{type(request).__name__} needs ever more")
