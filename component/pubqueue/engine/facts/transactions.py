"""Facts for transactions: staged publishes, commits, and commits that are larger than a batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.engine import listings
from pubqueue.engine.facts.publishing import audience, existing, fed, fed_by, for_publish
from pubqueue.engine.rows import (
    APPS,
    ATTEMPTS,
    NOTED,
    STAGED,
    VERSIONS,
    WAITING,
    Judged,
    NotedKey,
    StagedKey,
    Writes,
)
from pubqueue.model.entities import NO_TIME, Jid, Principal, State, later, seconds
from pubqueue.model.transactions import App, Mark, OpenVersion, StagedTotals, Usage
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.commit import NAMED, CommitFacts, CommitNodeFacts, WinnerCount, objection
from pubqueue.rules.moving import LookFacts, MetWinner, MoveFacts, ResumeFacts, dead_letter_id
from pubqueue.rules.publication import Known
from pubqueue.rules.staging import AppFacts, RecordFacts, StageFacts, StagePublish, done, seen_by

if TYPE_CHECKING:
    from pubqueue.engine.context import Context
    from pubqueue.engine.rows import Conflict
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import ItemId, Millis, Node, NodeName
    from pubqueue.model.transactions import Record, WinnerRow
    from pubqueue.rules.commit import CommitVersion, LookAtWinners
    from pubqueue.rules.moving import MoveWinners
    from pubqueue.rules.staging import AbortVersion, AskLastVersion, ListTransactions


# For commits and queries about transactions. A commit's items are counted in the store.

MAX_WINNERS: Final = 2000
MAX_BYTES: Final = 4 << 20
"""Items, and bytes of their payloads, that are committed in one batch; larger commits are moved in slices."""

MAX_PAGE: Final = 200
"""Up to how many records one answer has."""

ALL: Final = 1 << 30

UNMOVED: Final = 100
"""Commits that are looked at to go on with the oldest of those whose records are whole."""


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
    nodes = rows.winners(listings.Winners(request.app, request.version, named))
    if any((node := rows.node(one.node)) is not None and node.config.feeds for one in nodes):
        return replace(facts, too_many=True)
    found = tuple(_of_node(context, request, winners) for winners in nodes)
    place = request.dead_letter_node
    if place is not None and any(winners.taken for winners in found):
        facts = replace(
            facts, dead_letters=_of_node(context, request, listings.NodeWinners(place, 0, 0))
        )
    return replace(facts, nodes=_with_bytes(context, found, facts.dead_letters))


def _with_bytes(
    context: Context, found: tuple[CommitNodeFacts, ...], place: CommitNodeFacts | None
) -> tuple[CommitNodeFacts, ...]:
    """Add how many bytes the winners add, if one of their nodes has a limit of bytes."""
    nodes = [one.node for one in (*found, *(() if place is None else (place,)))]
    if all(node is None or node.config.max_bytes is None for node in nodes):
        return found
    sizes = {one.node: one for one in context.rows.page(listings.WinningBytes(), None, ALL)}
    return tuple(_sized(one, sizes.get(one.name)) for one in found)


def _sized(facts: CommitNodeFacts, brings: listings.NodeBytes | None) -> CommitNodeFacts:
    if brings is None or facts.node is None:
        return facts
    grown = brings.of_queue if facts.node.config.queueing else brings.of_plain
    aside = brings.taken if facts.node.config.queueing else 0
    return replace(facts, grown=grown, aside=aside)


def standing(context: Context, request: CommitVersion) -> CommitFacts:
    """Return the app and its attempts."""
    rows = context.rows
    app, open_version = version_of(rows, request.app, request.version)
    there = (
        rows.page(listings.AttemptsOf(request.app, request.version), None, ALL)
        if open_version
        else []
    )
    attempts = {(one.part, one.number): one for one in there}
    named = [
        attempts[key] for part in request.parts if (key := (part.number, part.attempt)) in attempts
    ]
    return CommitFacts(
        now=context.now,
        limits=context.terms.limits,
        app=app,
        apps=app_count(context, app, request.by.account),
        open=open_version,
        record=next(iter(rows.page(listings.RecordOf(request.app, request.version))), None),
        staged={key: one.items for key, one in attempts.items()},
        bytes=sum(one.bytes for one in named),
        noted=(sum(one.items for one in named), sum(one.known for one in named)),
        grouped=any(one.grouped for one in named),
    )


def _of_node(
    context: Context, request: CommitVersion, winners: listings.NodeWinners
) -> CommitNodeFacts:
    rows, account, name = context.rows, request.by.account, winners.node
    node = rows.node(name)
    affiliation, subscribed = rows.rights(name, account)
    queueing = node is not None and node.config.queueing
    notified = () if node is None else audience(context, node)
    behind = bool(notified) and context.is_behind(name)
    if node is not None and queueing:
        _compare(context, name, node.config.dedup_window)
    return CommitNodeFacts(
        name=name,
        node=node,
        affiliation=affiliation,
        subscribed=subscribed,
        rows=winners.rows,
        ids=winners.ids,
        found=tuple(map(_found, rows.page(listings.WinnerClasses(name), None, ALL))),
        taken=tuple(rows.page(listings.TakenWinners(name), None, NAMED)) if winners.rows else (),
        audience=notified,
        drafts=()
        if behind or not notified
        else tuple([draft for draft, _ in rows.page(listings.WinningDrafts(name), None, ALL)]),
        behind=behind,
        allowance=None if node is None else context.allowance(node.creator),
    )


def _compare(context: Context, node: NodeName, window: int) -> None:
    """Compare every winner whose id the node knows with the existing item, by meaning."""
    now = context.now
    which = listings.Conflicts(node, now if window else None, later(now, seconds(window)))
    context.rows.compare(which, partial(_judged, context))


def _judged(context: Context, conflicts: list[Conflict]) -> Writes:
    verdicts = tuple((conflict, _same(context, conflict)) for conflict in conflicts)
    return Writes(context.now, bulk=[Judged(verdicts)])


def _same(context: Context, conflict: Conflict) -> bool:
    if conflict.finished:
        return conflict.there == context.payloads.fingerprint(conflict.offered)
    return context.payloads.same(conflict.there, conflict.offered)


def _found(met: listings.WinnerClass) -> WinnerCount:
    if met.state == "finished":
        return WinnerCount(Known.FINISHED, None, met.count, met.first)
    known = Known.SAME if met.same else Known.OTHER
    return WinnerCount(known, State(met.state), met.count, met.first)


def for_abort(context: Context, request: AbortVersion) -> AppFacts:
    """Return the progress of the app, and whether the version is open; for an administrator also what a damaged row is written from."""
    rows = context.rows
    app, open_version = version_of(rows, request.app, request.version)
    facts = AppFacts(app, open_version, context.now)
    if not request.by.admin or app is None or request.attempts is not None:
        return facts
    if app.damaged:
        return replace(facts, last=_first(rows.page(listings.NewestRecord(request.app))))
    if not done(app, request.version):
        return facts
    record = _first(rows.page(listings.RecordOf(request.app, request.version)))
    return replace(facts, record=record)


def _first(records: list[Record]) -> Record | None:
    return next(iter(records), None)


def for_app(context: Context, request: AskLastVersion) -> AppFacts:
    """Return the progress of the app."""
    return AppFacts(version_of(context.rows, request.app, 0)[0])


def for_list(context: Context, request: ListTransactions) -> RecordFacts:
    """Return a page of records, and whether there are more."""
    limit = min(request.max, MAX_PAGE)
    listing = listings.Records(request.open, request.app, seen_by(request.by))
    records = context.rows.page(listing, request.after, limit + 1)
    return RecordFacts(tuple(records[:limit]), context.now, more=len(records) > limit)


# Facts for commits of more winners than one batch can hold: the next winners, with the items that have their ids.

SLICE: Final = 500
ROOM: Final = 1 << 20
"""Winners, and bytes of their payloads, in one slice."""


def for_look(context: Context, request: LookAtWinners) -> LookFacts:
    """Return the next winners of an open version."""
    rows, commit = context.rows, request.commit
    facts, account = standing(context, commit), commit.by.account
    named = tuple((part.number, part.attempt) for part in commit.parts)
    which = listings.WinnerRows(commit.app, commit.version, named, ROOM)
    winners = _slice(context, rows.page(which, request.after, SLICE))
    names = dict.fromkeys(row.node for row in winners)
    if request.taken and commit.dead_letter_node is not None:
        facts = replace(facts, dead_letters=_place(context, commit.dead_letter_node, account))
    nodes = {name: rows.node(name) for name in (*names, *(name for name, _ in request.added))}
    payers = {name: node.creator for name, node in nodes.items() if node is not None}
    return LookFacts(
        facts,
        tuple([_met(context, row) for row in winners]),
        {n: rows.rights(n, account) for n in names},
        nodes,
        {} if winners else {name: context.allowance(payer) for name, payer in payers.items()},
    )


def _slice(context: Context, winners: list[WinnerRow]) -> list[WinnerRow]:
    """Return as many of the winners as add up to a slice of items in nodes and the queues that these feed."""
    items = 0
    for count, row in enumerate(winners):
        if items >= SLICE:
            return winners[:count]
        node = context.rows.node(row.node)
        items += 1 if node is None else 1 + len(node.config.feeds)
    return winners


def _place(context: Context, name: NodeName, account: Jid) -> CommitNodeFacts:
    """Return a node for dead letters, and the principal's affiliation with it."""
    rows = context.rows
    rights = rows.rights(name, account)
    node = rows.node(name)
    allowance = None if node is None else context.allowance(node.creator)
    return CommitNodeFacts(name, node, *rights, rows=0, ids=0, allowance=allowance)


def _met(context: Context, row: WinnerRow) -> MetWinner:
    node = context.rows.node(row.node)
    if node is None or row.superseded:
        return MetWinner(row, node, Known.NEW, None)
    met = MetWinner(row, node, *existing(context, node, row.item.draft))
    if not node.config.feeds:
        return met
    draft = row.item.draft
    queues = fed(context, fed_by(context, node), (draft,))
    return replace(met, fed=queues, space=context.payloads.space_of(draft.payload))


def for_move(context: Context, request: MoveWinners) -> MoveFacts:
    """Return the next winners of a committed version."""
    rows = context.rows
    which = listings.WinnerRows(request.app, request.version, None, ROOM)
    winners = _slice(context, rows.page(which, None, SLICE))
    record = next(iter(rows.page(listings.RecordOf(request.app, request.version))), None)
    if record is None:  # nothing of it is left, or its needs are being collected
        return MoveFacts(context.now, Jid(""), NO_TIME, (), {})
    nodes = {row.node: rows.node(row.node) for row in winners}
    if record.damaged:
        return MoveFacts(context.now, record.owner, NO_TIME, (), {}, damaged=True)
    at, name = record.committed or NO_TIME, record.dead_letter_node
    place = None if name is None else _open_to(context, name, record.owner)
    met = [_met(context, row) for row in winners]
    if place is not None:
        met = [_met_there(context, request, winner, (place, at)) for winner in met]
    return MoveFacts(
        context.now,
        record.owner,
        at,
        tuple(met),
        {name: audience(context, node) for name, node in nodes.items() if node is not None},
        record.on_taken,
        place,
    )


def _open_to(context: Context, name: NodeName, owner: Jid) -> Node | None:
    """Return the node for dead letters, if the owner of the app may publish there now."""
    node = context.rows.node(name)
    affiliation, subscribed = context.rows.rights(name, owner)
    if node is None:
        return None
    standing = access.standing_of(
        Principal(owner, admin=owner in context.terms.operators), affiliation
    )
    may = access.may(standing, Action.PUBLISH, node, subscribed=subscribed)
    return node if may else None


def _met_there(
    context: Context, request: MoveWinners, winner: MetWinner, goes: tuple[Node, Millis]
) -> MetWinner:
    """Add whether the id under which the winner would become a dead letter exists already."""
    if winner.known is not Known.OTHER:
        return winner
    place, at = goes
    there = context.rows.item(place.name, dead_letter_id(request, winner.row, at))
    return replace(winner, twice=there is not None)


def for_resume(context: Context, _request: object) -> ResumeFacts:
    """Return the oldest commit that still has winners to move, and whose record is whole."""
    found = context.rows.page(listings.Unmoved(), None, UNMOVED)
    whole = _first([one for one in found if not one.damaged])
    return ResumeFacts(None if whole is None else (whole.app, whole.version))


# Facts for staged publishes: the progress of the app, and what is staged already.


def version_of(rows: WorkingSet, name: str, version: int) -> tuple[App | None, OpenVersion | None]:
    """Return the app, and its version of this number if that is open."""
    app, there = rows.row(APPS, name), rows.row(VERSIONS, (name, version))
    if there is None:
        return app, None
    return app, OpenVersion(there.immediate, there.items, there.bytes, there.damaged)


def usage(rows: WorkingSet, account: Jid) -> Usage:
    """Return how much waits for commits, of the account and in total."""
    mine = rows.row(WAITING, account) or StagedTotals(account)
    everybody = rows.row(WAITING, "") or StagedTotals("")
    return Usage(mine.items, mine.bytes, everybody.items, everybody.bytes)


def app_count(context: Context, app: App | None, account: Jid) -> int:
    """Return how many apps the account has, counted up to its limit: they matter only to an app that is not known yet."""
    if app is not None:
        return 0
    most = context.terms.limits.apps_per_account
    return sum(context.rows.page(listings.AppsOf(account), None, most))


def for_stage(context: Context, request: StagePublish) -> StageFacts:
    """Return the node, the progress of the app, and the items that the attempt has staged already."""
    rows, mark, wanted = context.rows, request.mark, request.publish
    app, open_version = version_of(rows, mark.app, mark.version)
    skips = done(app, mark.version)
    looks = replace(wanted, drafts=wanted.drafts if mark.immediate and not skips else ())
    return StageFacts(
        publish=for_publish(context, looks),
        app=app,
        open=open_version,
        usage=Usage() if skips else usage(rows, wanted.by.account),
        limits=context.terms.limits,
        apps=app_count(context, app, wanted.by.account),
        sizes=tuple(
            None if open_version is None else _staged_size(rows, mark, wanted.node, draft.id)
            for draft in wanted.drafts
        ),
        noted=_noted(context, request) if mark.immediate else (),
    )


def _staged_size(rows: WorkingSet, mark: Mark, node: NodeName, item: ItemId) -> int | None:
    """Return the size of the item that exactly this attempt has staged under the id."""
    attempt = mark.app, mark.version, mark.part, mark.attempt
    if rows.row(ATTEMPTS, attempt) is None:  # not known, or it has staged nothing
        return None
    found = rows.row(STAGED, StagedKey(*attempt, node, item))
    return None if found is None else found.size


def _noted(context: Context, request: StagePublish) -> tuple[tuple[bool, bool] | None, ...]:
    """Compare the items that the open version has published already with those that are offered again."""
    mark, node = request.mark, request.publish.node
    seen: list[tuple[bool, bool] | None] = []
    for draft in request.publish.drafts:
        noted = context.rows.row(NOTED, NotedKey(mark.app, mark.version, node, draft.id))
        same = noted is not None and context.payloads.same(noted.payload, draft.payload)
        seen.append(None if noted is None else (same, noted.known))
    return tuple(seen)
