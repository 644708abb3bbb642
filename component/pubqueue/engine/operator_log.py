"""The operator log: workers coming and going, and why items died. Written after the commit.

Names, addresses and reasons are logged; payloads, headers and secrets never. Many deaths at once
are logged as a sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine.observe import Observer
from pubqueue.model import changes
from pubqueue.model.entities import account_of
from pubqueue.model.replies import Subscribed
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodes import Configure, SetAffiliations, SetPolicy
from pubqueue.rules.presence import Arrive, Bounce, Departure, FreeConnections, FreeLeft, Leave
from pubqueue.rules.settle import Settle
from pubqueue.rules.subscribe import Subscribe, Unsubscribe
from pubqueue.rules.subscribers import Answer, QuietWorker, SetSubscriptions
from pubqueue.rules.unlock import Dismiss, FreeLocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.engine.observe import Took
    from pubqueue.model.decision import Decision, Request
    from pubqueue.model.entities import Millis, NodeName
    from pubqueue.model.notices import Notice


log = structlog.get_logger(__name__)

LOGGED_REQUESTS: Final[frozenset[type]] = frozenset(
    {
        *(Arrive, Leave, FreeLeft, FreeConnections, Bounce, Expire),
        *(Subscribe, Unsubscribe),
        *(Configure, SetAffiliations, SetPolicy, Declare, ReviewSubscribers),
        *(Dismiss, FreeLocks),
        *(Answer, SetSubscriptions, QuietWorker),
    }
)
"""Requests that may be logged; all others are skipped unread."""

ONE_BY_ONE: Final = 5
"""The number of deaths of one kind that are logged one by one; beyond it only the sum is."""

QUIET: Final = 60_000
"""Milliseconds between two entries about what one queue leaves out: a publisher does not stop for it."""

MAX_NODES: Final = 1_000
"""Queues of which that is known."""

_CLOSED: Final = "the node was closed to it"

_WHY: Final[dict[type, str]] = {
    Bounce: "deliveries come back",
    Leave: "it went away",
    FreeConnections: "it went away",
    Configure: _CLOSED,
    SetAffiliations: _CLOSED,
    SetPolicy: _CLOSED,
    Declare: _CLOSED,
    Dismiss: "an owner ended it",
    Expire: "its lease is over",
    Answer: "an owner has denied it",
    SetSubscriptions: "an owner has ended it",
}


class OperatorLog(Observer):
    """Writes the operator's log."""

    fault = "operator_log.failed"
    asks = LOGGED_REQUESTS | {changes.GiveUp, changes.NoteLeftOut}

    def __init__(self) -> None:
        self._left_out: dict[NodeName, tuple[Millis, int]] = {}
        """When each queue was logged last, and how many items it has left out since then."""

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],  # noqa: ARG002  # an item of them may be handed out thousands of times
        took: Took,  # noqa: ARG002
    ) -> None:
        """Log operators' actions on people and dead items."""
        log_decisions(requests, decisions)
        for decision in decisions:
            for change in decision.changes:
                if isinstance(change, changes.NoteLeftOut):
                    self._log_left_out(change)
                elif isinstance(change, changes.GiveUp) and change.onward is not None:
                    for missed in change.onward.left_out:
                        self._log_left_out(missed)

    def _log_left_out(self, change: changes.NoteLeftOut) -> None:
        """Log what a queue could not take; what follows within a minute is logged as a sum."""
        since, items = self._left_out.get(change.node, (None, 0))
        items += change.items
        if since is None or change.at - since >= QUIET:
            log.warning("items.left_out", node=change.node, items=items, reason=change.why)
            since, items = change.at, 0
        if len(self._left_out) >= MAX_NODES:
            self._left_out.clear()
        self._left_out[change.node] = since, items


def log_decisions(requests: Iterable[Request], decisions: Sequence[Decision]) -> None:
    """Log the effects of these decisions; they are committed."""
    deaths: list[changes.GiveUp] = []
    for request, decision in zip(requests, decisions, strict=True):
        if type(request) is FreeLeft and decision.then is None:
            locks = request.freed + _freed(decision)
            log.info("worker.freed", jid=request.jid, locks=locks)
        kinds = set(map(type, decision.changes)) - {changes.NoteActivity, changes.NotePresence}
        if kinds and type(request) in LOGGED_REQUESTS:
            _log_people(request, decision)
        if changes.GiveUp in kinds and (
            type(request) in LOGGED_REQUESTS or type(request) is Settle
        ):
            deaths += [change for change in decision.changes if isinstance(change, changes.GiveUp)]
    if deaths:
        _log_deaths(deaths)


def _log_request(request: Request, decision: Decision) -> None:
    match request:
        case Arrive():
            log.info("worker.arrived", jid=request.jid)
        case Leave():
            log.info("worker.left", jid=request.jid, **_of_leave(request, decision))
        case FreeConnections(jids=(jid,)) if not request.freed and decision.then is None:
            log.info("worker.left", jid=jid, locks=_freed(decision))
        case Bounce(bounced=True):
            log.info("delivery.bounced", to=request.to, gone=request.gone)
        case FreeLocks():
            log.info(
                "locks.ended", node=request.node, locks=len(request.ids), by=request.by.account
            )
        case _:
            pass


def _log_people(request: Request, decision: Decision) -> None:
    if isinstance(request, FreeLeft) or (
        isinstance(request, FreeConnections) and request.how is Departure.INSTANCE_DIED
    ):
        return  # their end is logged with the sums
    if isinstance(request, FreeConnections) and len(request.jids) > ONE_BY_ONE:
        _log_many(request, decision)
        return
    _log_request(request, decision)
    for change in decision.changes:
        if isinstance(change, changes.EndSubscription):
            why = _WHY.get(type(request), "it asked for it")
            log.info("worker.unsubscribed", node=change.node, jid=change.jid, why=why)
        elif isinstance(change, changes.EndSubscriptions):
            count = len(change.jids)
            log.info("workers.unsubscribed", node=change.node, workers=count, why=_CLOSED)
        elif isinstance(change, changes.AddSubscription) and _is_of_a_queue(decision):
            new = change.subscription
            log.info("worker.subscribed", node=new.node, jid=new.jid, requests=new.queue_requests)
        elif isinstance(change, changes.SetQuiet):
            event = "worker.quiet" if change.quiet else "worker.resumed"
            log.info(event, node=change.node, jid=change.jid)
        elif isinstance(change, changes.NoteResource) and not isinstance(request, Arrive):
            log.info("worker.arrived", jid=change.jid)


def _log_many(request: FreeConnections, decision: Decision) -> None:
    """Log the sums of a slice of the addresses of one client."""
    ended = [change for change in decision.changes if isinstance(change, changes.EndSubscription)]
    locks, account = _freed(decision), account_of(request.jid)
    log.info("workers.left", account=account, workers=len(ended), locks=locks)


def _of_leave(request: Leave, decision: Decision) -> dict[str, int]:
    """Return how many locks ended, whether more will, which is logged then, and whether pings were left unanswered."""
    more = {} if decision.then is None else {"more": True}
    silent = {} if request.unanswered is None else {"silent": True}
    return {"locks": _freed(decision)} | more | silent


def _freed(decision: Decision) -> int:
    """Return how many locks have ended."""
    return sum(isinstance(change, changes.Release | changes.GiveUp) for change in decision.changes)


def _is_of_a_queue(decision: Decision) -> bool:
    return isinstance(decision.reply, Subscribed) and decision.reply.queueing


def _log_deaths(deaths: Iterable[changes.GiveUp]) -> None:
    alike: dict[tuple[str, str, str], list[changes.GiveUp]] = {}
    for death in deaths:
        alike.setdefault((death.item.node, death.reason, death.to or ""), []).append(death)
    for (node, reason, to), group in alike.items():
        where = {"moved_to": to} if to else {}
        if len(group) > ONE_BY_ONE:
            log.info("items.dead", node=node, items=len(group), reason=reason, **where)
            continue
        for death in group:
            item = death.item
            more = {"failed": death.failed, "holder": item.holder or ""} | where
            log.info("item.dead", node=node, item=item.id, reason=reason, **more)
