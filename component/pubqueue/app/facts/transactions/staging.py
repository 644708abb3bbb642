"""Facts for staged publishes: the progress of the app, and what is staged already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.app.facts.queue.publishing import for_publish
from pubqueue.app.store.rows import (
    APPS,
    ATTEMPTS,
    NOTED,
    STAGED,
    VERSIONS,
    WAITING,
    NotedKey,
    StagedKey,
)
from pubqueue.model.transactions import App, Mark, OpenVersion, StagedTotals, Usage
from pubqueue.rules.staging import StageFacts, StagePublish, done

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import ItemId, Jid, NodeName


def version_of(rows: WorkingSet, name: str, version: int) -> tuple[App | None, OpenVersion | None]:
    """Return the app, and its version of this number if that is open."""
    app, there = rows.row(APPS, name), rows.row(VERSIONS, (name, version))
    if there is None:
        return app, None
    return app, OpenVersion(there.immediate, there.items, there.bytes)


def usage(rows: WorkingSet, account: Jid) -> Usage:
    """Return how much waits for commits, of the account and in total."""
    mine = rows.row(WAITING, account) or StagedTotals(account)
    everybody = rows.row(WAITING, "") or StagedTotals("")
    return Usage(mine.items, mine.bytes, everybody.items, everybody.bytes)


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
