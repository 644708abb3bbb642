"""For commits and queries about transactions. A commit's items are counted in the store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.facts.queue.publishing import audience
from pubqueue.app.facts.transactions.staging import version_of
from pubqueue.app.store.rows import Judged, Writes
from pubqueue.app.store.version_listings import (
    AttemptsOf,
    Conflicts,
    NodeWinners,
    RecordOf,
    Records,
    TakenWinners,
    WinnerClasses,
    Winners,
    WinningBytes,
    WinningDrafts,
)
from pubqueue.model.entities import State
from pubqueue.rules.commit import NAMED, CommitFacts, CommitNodeFacts, WinnerCount, objection
from pubqueue.rules.publication import Known
from pubqueue.rules.staging import AppFacts, RecordFacts, seen_by

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.store.rows import Conflict
    from pubqueue.app.store.version_listings import NodeBytes, WinnerClass
    from pubqueue.model.entities import Millis, NodeName
    from pubqueue.rules.commit import CommitVersion
    from pubqueue.rules.staging import AbortVersion, AskLastVersion, ListTransactions

MAX_WINNERS: Final = 2000
MAX_BYTES: Final = 4 << 20
"""Items, and bytes of their payloads, that are committed in one batch; larger commits are moved in slices."""

MAX_PAGE: Final = 200
"""Up to how many records one answer has."""

ALL: Final = 1 << 30


def for_commit(context: Context, request: CommitVersion) -> CommitFacts:
    """Return the app and its attempts; the winners only if they will count, and one batch can hold them."""
    rows, facts = context.rows, standing(context, request)
    open_version = facts.open
    if open_version is None or rows.gathering or rows.lacking:
        return facts
    if objection(request, facts) is not None:
        return facts
    named = tuple((part.number, part.attempt) for part in request.parts)
    if open_version.immediate:
        return facts
    many = sum(part.items for part in request.parts) > MAX_WINNERS or facts.bytes > MAX_BYTES
    if many or facts.grouped:
        return replace(facts, too_many=True)
    nodes = rows.winners(Winners(request.app, request.version, named))
    if any((node := rows.node(one.node)) is not None and node.config.feeds for one in nodes):
        return replace(facts, too_many=True)
    found = tuple(_of_node(context, request, winners) for winners in nodes)
    place = request.dead_letter_node
    if place is not None and any(winners.taken for winners in found):
        facts = replace(facts, dead_letters=_of_node(context, request, NodeWinners(place, 0, 0)))
    return replace(facts, nodes=_with_bytes(context, found, facts.dead_letters))


def _with_bytes(
    context: Context, found: tuple[CommitNodeFacts, ...], place: CommitNodeFacts | None
) -> tuple[CommitNodeFacts, ...]:
    """Add how many bytes the winners add, if one of their nodes has a limit of bytes."""
    nodes = [one.node for one in (*found, *(() if place is None else (place,)))]
    if all(node is None or node.config.max_bytes is None for node in nodes):
        return found
    sizes = {one.node: one for one in context.rows.page(WinningBytes(), None, ALL)}
    return tuple(_sized(one, sizes.get(one.name)) for one in found)


def _sized(facts: CommitNodeFacts, brings: NodeBytes | None) -> CommitNodeFacts:
    if brings is None or facts.node is None:
        return facts
    grown = brings.of_queue if facts.node.config.queueing else brings.of_plain
    aside = brings.taken if facts.node.config.queueing else 0
    return replace(facts, grown=grown, aside=aside)


def standing(context: Context, request: CommitVersion) -> CommitFacts:
    """Return the app and its attempts."""
    rows = context.rows
    app, open_version = version_of(rows, request.app, request.version)
    there = rows.page(AttemptsOf(request.app, request.version), None, ALL) if open_version else []
    attempts = {(one.part, one.number): one for one in there}
    named = [
        attempts[key] for part in request.parts if (key := (part.number, part.attempt)) in attempts
    ]
    return CommitFacts(
        now=context.now,
        app=app,
        open=open_version,
        record=next(iter(rows.page(RecordOf(request.app, request.version))), None),
        staged={key: one.items for key, one in attempts.items()},
        bytes=sum(one.bytes for one in named),
        noted=(sum(one.items for one in named), sum(one.known for one in named)),
        grouped=any(one.grouped for one in named),
    )


def _of_node(context: Context, request: CommitVersion, winners: NodeWinners) -> CommitNodeFacts:
    rows, account, name = context.rows, request.by.account, winners.node
    node = rows.node(name)
    affiliation, subscribed = rows.rights(name, account)
    queueing = node is not None and node.config.queueing
    notified = () if node is None else audience(context, node)
    behind = bool(notified) and context.is_behind(name)
    if node is not None and queueing:
        _compare(context, name, context.now if node.config.dedup_window else None)
    return CommitNodeFacts(
        name=name,
        node=node,
        affiliation=affiliation,
        subscribed=subscribed,
        rows=winners.rows,
        ids=winners.ids,
        found=tuple(map(_found, rows.page(WinnerClasses(name), None, ALL))),
        taken=tuple(rows.page(TakenWinners(name), None, NAMED)) if winners.rows else (),
        audience=notified,
        drafts=() if behind or not notified else tuple(rows.page(WinningDrafts(name), None, ALL)),
        behind=behind,
        allowance=None if node is None else context.allowance(node.creator),
    )


def _compare(context: Context, node: NodeName, absorbing: Millis | None) -> None:
    """Compare every winner whose id the node knows with the existing item, by meaning."""
    context.rows.compare(Conflicts(node, absorbing), partial(_judged, context))


def _judged(context: Context, conflicts: list[Conflict]) -> Writes:
    verdicts = tuple((conflict, _same(context, conflict)) for conflict in conflicts)
    return Writes(context.now, bulk=[Judged(verdicts)])


def _same(context: Context, conflict: Conflict) -> bool:
    if conflict.finished:
        return conflict.there == context.payloads.fingerprint(conflict.offered)
    return context.payloads.same(conflict.there, conflict.offered)


def _found(met: WinnerClass) -> WinnerCount:
    if met.state == "finished":
        return WinnerCount(Known.FINISHED, None, met.count, met.first)
    known = Known.SAME if met.same else Known.OTHER
    return WinnerCount(known, State(met.state), met.count, met.first)


def for_abort(context: Context, request: AbortVersion) -> AppFacts:
    """Return the progress of the app, and whether the version is open."""
    return AppFacts(*version_of(context.rows, request.app, request.version))


def for_app(context: Context, request: AskLastVersion) -> AppFacts:
    """Return the progress of the app."""
    return AppFacts(version_of(context.rows, request.app, 0)[0])


def for_list(context: Context, request: ListTransactions) -> RecordFacts:
    """Return a page of records, and whether there are more."""
    limit = min(request.max, MAX_PAGE)
    listing = Records(request.open, request.app, seen_by(request.by))
    records = context.rows.page(listing, request.after, limit + 1)
    return RecordFacts(tuple(records[:limit]), context.now, more=len(records) > limit)
