"""One batch: many requests in one transaction, then the queues they touched, then nothing else.

A request that fails inside rolls back alone. The common case pays for no savepoint of its own: all
requests run under one, and only if that fails they run again, each under its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.app.ports import StaleError, StoreError
from pubqueue.app.rules import decide
from pubqueue.core.changes import (
    AddItem,
    AddSubscription,
    ConfigureNode,
    EndSubscription,
    GiveUp,
    Lock,
    Postpone,
    Release,
    RemoveItem,
    ReplacePayload,
    Revive,
    Ripen,
    SetAvailable,
    SetWindow,
)
from pubqueue.core.decision import (
    Decision,
    Deliver,
    Notice,
    Refusal,
    refuse,
)
from pubqueue.core.dispatch import dispatch, free
from pubqueue.core.model import Item, State
from pubqueue.core.transactions import Commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.app.facts import Context
    from pubqueue.app.rules import Request
    from pubqueue.core.changes import Change
    from pubqueue.core.model import Millis, NodeName

log = structlog.get_logger(__name__)

MOST: Final = 1000
MOST_OCTETS: Final = 1024 * 1024
"""Items and bytes of payload that a batch hands out; more follow in the next one, if there are still
ears: whatever is free and ready, no more than this is in memory, or waits for a server that does not read."""


class Outcome(Struct, frozen=True, gc=False):
    """What a batch has come to: a decision for each request, deliveries, when the clock is due.

    `rest` names the nodes in which more could be handed out at once, first those that had nothing.
    """

    decisions: tuple[Decision, ...]
    deliveries: tuple[Notice, ...]
    next_moment: Millis | None
    rest: tuple[NodeName, ...] = ()


@dataclass(slots=True)
class Allowance:
    """What a batch may still hand out."""

    items: int = MOST
    octets: int = MOST_OCTETS

    def is_spent(self) -> bool:
        """Say whether nothing is left of it."""
        return self.items <= 0 or self.octets <= 0

    def spend(self, deliveries: Sequence[Deliver]) -> None:
        """Take off what these need."""
        self.items -= len(deliveries)
        self.octets -= sum(len(notice.payload) for notice in deliveries)


def run(
    context: Context,
    requests: Sequence[Request],
    *,
    dispatching: bool,
    everywhere: bool,
    rest: Sequence[NodeName] = (),
) -> Outcome:
    """Do the requests, then, if `dispatching`, hand out items of the nodes they touched.

    Before these come the nodes that were the `rest` of the batch before. `everywhere` looks at all
    nodes, whether touched or not.
    """
    decisions = _all(context, requests)
    nodes: dict[NodeName, None] = {}
    if dispatching:
        nodes.update(dict.fromkeys(rest))
        if everywhere:
            nodes.update(dict.fromkeys(context.tx.ready_nodes()))
        for decision in decisions:
            nodes.update(dict.fromkeys(_touched(decision.changes)))
    deliveries, rest = _hand_out_all(context, nodes)
    return Outcome(tuple(decisions), tuple(deliveries), context.tx.next_moment(), tuple(rest))


def _hand_out_all(
    context: Context, nodes: Iterable[NodeName]
) -> tuple[list[Deliver], list[NodeName]]:
    allowance = Allowance()
    deliveries: list[Deliver] = []
    unreached: list[NodeName] = []
    cut_short: list[NodeName] = []
    for node in nodes:
        if allowance.is_spent():
            unreached.append(node)
            continue
        deliveries += hand_out(context, node, allowance)
        if allowance.is_spent():
            cut_short.append(node)
    return deliveries, unreached + cut_short


def _all(context: Context, requests: Sequence[Request]) -> list[Decision]:
    try:
        with context.tx.savepoint():
            return [_one(context, request) for request in requests]
    except Exception as problem:  # whatever one request broke, its neighbours shall have answers
        context.log.forget()
        if _lost(problem):
            raise
        log.info("batch.divided", requests=len(requests))
    return [_guarded(context, request) for request in requests]


def _guarded(context: Context, request: Request) -> Decision:
    try:
        with context.tx.savepoint():
            return _one(context, request)
    except Exception as problem:  # the boundary between requests: this one has failed
        context.log.forget()
        if _lost(problem):
            raise
        log.exception("request.failed", request=type(request).__name__)
        return refuse(Refusal.STORE_FAILED)


def _lost(problem: Exception) -> bool:
    """Say whether the whole transaction is lost: then nothing is left to divide."""
    return isinstance(problem, StoreError) and not isinstance(problem, StaleError)


def _one(context: Context, request: Request) -> Decision:
    decision = decide(context, request)
    if decision.changes:
        context.log.record(context.tx, request, decision.changes, context.now)
        context.tx.apply(decision.changes)
    return decision


def _touched(changes: Iterable[Change]) -> Iterable[NodeName]:
    """Name the nodes in which something may have become free or ready."""
    for change in changes:
        match change:
            case Release() | RemoveItem() | Postpone() | ReplacePayload():
                yield change.item.node
            case AddItem() | SetWindow() | SetAvailable() | EndSubscription() | Ripen():
                yield change.node
            case AddSubscription():
                yield change.subscription.node
            case Revive():
                yield change.item.node
                yield change.to
            case GiveUp():
                yield change.item.node
                if change.to is not None:
                    yield change.to
            case ConfigureNode():
                yield change.node
            case Commit():
                yield from (outcome.node for outcome in change.outcomes)
            case _:
                pass


def hand_out(context: Context, name: NodeName, allowance: Allowance) -> list[Deliver]:
    """Lock the node's ready items to its free subscribers and return the deliveries.

    It ends when nothing is ready or nobody is free, or when the allowance is spent.
    """
    tx = context.tx
    node = tx.node(name)
    if node is None or not node.config.queueing or node.config.paused:
        return []
    deliveries: list[Deliver] = []
    aside = tx.aside(name, context.now, MOST, allowance.octets)
    while room := min(free(windows := tx.open_windows(name)), allowance.items):
        ready = tx.ready(name, context.now, room, allowance.octets)
        rows = sorted(aside + ready, key=_turn) if aside else ready
        if not rows:
            break
        changes = dispatch(
            node,
            [item for item, _ in rows],
            windows,
            now=context.now,
            first_token=tx.tokens(len(rows)),
        )
        context.log.record(tx, None, changes, context.now)
        tx.apply(changes)
        locks = [change for change in changes if isinstance(change, Lock)]
        handed = _deliveries(locks, rows)
        allowance.spend(handed)
        deliveries += handed
        aside = []
        if allowance.is_spent() or len(locks) == len(changes):
            break  # unless something was put aside: then items behind it got nearer
    return deliveries


def _turn(row: tuple[Item, bytes]) -> tuple[int, int]:
    """Order as the store does: the higher priority first, then the older."""
    return -row[0].priority, row[0].seq


def _deliveries(locks: Iterable[Lock], rows: Iterable[tuple[Item, bytes]]) -> list[Deliver]:
    payloads = {item.seq: payload for item, payload in rows}
    return [Deliver(lock.holder, _locked(lock), payloads[lock.item.seq]) for lock in locks]


def _locked(lock: Lock) -> Item:
    """Return the item as the lock has left it (spelled out: this is the hottest copy there is)."""
    was = lock.item
    return Item(
        seq=was.seq,
        node=was.node,
        id=was.id,
        state=State.LOCKED,
        publisher=was.publisher,
        published=was.published,
        priority=was.priority,
        expires=was.expires,
        acquired=was.acquired + 1,
        failed=was.failed,
        released=was.released,
        holder=lock.holder,
        deadline=lock.deadline,
        token=lock.token,
        avoid=was.avoid,
        taken=lock.at,
        headers=was.headers,
    )
