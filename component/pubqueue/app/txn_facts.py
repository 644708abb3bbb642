"""Load what the rules of transactions ask for. A commit's items are counted where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.facts import for_publish
from pubqueue.core.commit import CommitFacts, Found, Tally, objection
from pubqueue.core.model import State
from pubqueue.core.publish import Known
from pubqueue.core.transactions import Usage
from pubqueue.core.txn import AppFacts, ListFacts, StageFacts, done, seen_by

if TYPE_CHECKING:
    from pubqueue.app.facts import Context
    from pubqueue.app.txn_ports import Class, Contest
    from pubqueue.core.commit import CommitVersion
    from pubqueue.core.model import NodeName
    from pubqueue.core.txn import AbortVersion, AskMark, ListTransactions, StagePublish

COMPARED: Final = 500
"""Payloads that are compared by meaning at a time."""

LONGEST_PAGE: Final = 200
"""Records in one answer at most."""


def for_stage(context: Context, request: StagePublish) -> StageFacts:
    """Load the node, how far the app is, and what the attempt has staged already."""
    staging, mark, wanted = context.tx.staging, request.mark, request.publish
    app, open_version = staging.standing(mark.app, mark.version)
    skips = done(app, mark.version)
    looks = replace(wanted, drafts=wanted.drafts if mark.immediate and not skips else ())
    return StageFacts(
        publish=for_publish(context, looks),
        app=app,
        open=open_version,
        usage=Usage() if skips else staging.usage(wanted.by.bare),
        limits=context.limits,
        sizes=tuple(
            None if open_version is None else staging.size(mark, wanted.node, draft.id)
            for draft in wanted.drafts
        ),
        noted=_noted(context, request) if mark.immediate else (),
    )


def _noted(context: Context, request: StagePublish) -> tuple[tuple[bool, bool] | None, ...]:
    """Compare what the open version has published already with what is offered again."""
    seen: list[tuple[bool, bool] | None] = []
    for draft in request.publish.drafts:
        noted = context.tx.staging.noted(request.mark, request.publish.node, draft.id)
        seen.append(
            None
            if noted is None
            else (context.same_payload(noted.payload, draft.payload), noted.known)
        )
    return tuple(seen)


def for_commit(context: Context, request: CommitVersion) -> CommitFacts:
    """Load the app and its attempts; the winners only if they are going to count."""
    staging, now = context.tx.staging, context.now
    app, open_version = staging.standing(request.app, request.version)
    attempts = staging.attempts(request.app, request.version) if open_version else {}
    named = [(part.number, part.attempt) for part in request.parts]
    facts = CommitFacts(
        now=now,
        app=app,
        open=open_version,
        record=staging.record(request.app, request.version),
        staged={key: items for key, (items, _) in attempts.items()},
        bytes=sum(attempts[key][1] for key in named if key in attempts),
    )
    if open_version is None or objection(request, facts) is not None:
        return facts
    if open_version.immediate:
        noted = staging.choose_noted(request.app, request.version, named)
        return replace(facts, noted=noted)
    nodes = staging.choose(request.app, request.version, named)
    tallies = tuple(_tally(context, request, *node) for node in nodes)
    return replace(facts, tallies=tallies)


def _tally(context: Context, request: CommitVersion, name: NodeName, rows: int, ids: int) -> Tally:
    tx, account = context.tx, request.by.bare
    node = tx.node(name)
    queueing = node is not None and node.config.queueing
    if node is not None and queueing:
        if node.config.dedup_window:
            tx.staging.meet_finished(name, context.now)
        _compare(context, name)
    heard = () if node is None or queueing else tuple(s.jid for s in tx.subscribers(name))
    return Tally(
        name=name,
        node=node,
        affiliation=tx.affiliation(name, account),
        subscribed=tx.subscribed(name, account),
        rows=rows,
        ids=ids,
        found=tuple(map(_found, tx.staging.classes(name))),
        audience=heard,
        drafts=tuple(tx.staging.drafts(name)) if heard else (),
    )


def _compare(context: Context, node: NodeName) -> None:
    """Have every winner whose id is known to the node compared with what is there, by meaning."""
    staging = context.tx.staging
    while contests := staging.contested(node, COMPARED):
        staging.judge([(contest, _same(context, contest)) for contest in contests])


def _same(context: Context, contest: Contest) -> bool:
    if contest.finished:
        return contest.there == context.fingerprint(contest.offered)
    return context.same_payload(contest.there, contest.offered)


def _found(met: Class) -> Found:
    if met.state == "finished":
        return Found(Known.FINISHED, None, met.count, met.first)
    known = Known.SAME if met.same else Known.OTHER
    return Found(known, State(met.state), met.count, met.first)


def for_app(context: Context, request: AbortVersion | AskMark) -> AppFacts:
    """Load how far the app is."""
    return AppFacts(context.tx.staging.standing(request.app, 0)[0])


def for_list(context: Context, request: ListTransactions) -> ListFacts:
    """Load a page of records, and look whether there are more."""
    limit = min(request.max, LONGEST_PAGE)
    records = context.tx.staging.records(
        waiting=request.open,
        app=request.app,
        owner=seen_by(request.by),
        after=request.after,
        limit=limit + 1,
    )
    return ListFacts(tuple(records[:limit]), context.now, more=len(records) > limit)
