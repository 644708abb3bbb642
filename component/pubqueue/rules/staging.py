"""Stage, abort, query and list: transactions up to their commit.

A committed version stays so: a publish of it or of an older one is skipped, an abort does nothing.
So a writer may repeat any request whose result it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import transactions as t
from pubqueue.model.after import waiting
from pubqueue.model.changes import AddItem
from pubqueue.model.decision import (
    Decision,
    Done,
    Published,
    Read,
    Refusal,
    Refused,
    Request,
    refuse,
)
from pubqueue.model.entities import NO_TIME, later
from pubqueue.model.records import weight
from pubqueue.model.sums import sum_of
from pubqueue.rules.damage import APP_DAMAGED, VERSION_DAMAGED
from pubqueue.rules.publication import Known, life_of
from pubqueue.rules.publish import inadmissible, publish_at_once
from pubqueue.rules.room import beyond_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Draft, Jid, Millis, Node, Principal
    from pubqueue.rules.publication import Publish, PublishFacts


class StagePublish(Request, frozen=True, gc=False):
    """Publish these items when the version of the mark is committed, or at once if the mark is immediate."""

    publish: Publish
    mark: t.Mark


class StageFacts(Struct, frozen=True, gc=False):
    """The node as for any publish, and per draft what the open version has of its id.

    `sizes` are of the drafts' predecessors in the same attempt. `noted` is for items that are visible
    at once: the same payload or not, and whether the node knew it before the version.
    """

    publish: PublishFacts
    app: t.App | None
    open: t.OpenVersion | None
    usage: t.Usage
    limits: t.Limits
    sizes: tuple[int | None, ...]
    noted: tuple[tuple[bool, bool] | None, ...] = ()
    apps: int = 0
    """How many apps the account has, if this one is new."""


class AbortVersion(Request, frozen=True, gc=False):
    """Drop the staged items of the version: all of them, or those of these attempts, by part and number.

    A writer that would name its attempts in a commit names them here too: so a driver that still runs
    beside its successor drops nothing that the successor has staged.
    """

    by: Principal
    app: str
    version: int
    attempts: tuple[tuple[int, int], ...] | None = None


class AskLastVersion(Request, frozen=True, gc=False):
    """Request the progress of an app."""

    by: Principal
    app: str


class AppFacts(Struct, frozen=True, gc=False):
    """The app, if it is known, and its version in question, if that is open.

    For an abort by an administrator also the record of the version, if it is committed, and the last record that is whole, if
    the app is damaged.
    """

    app: t.App | None
    open: t.OpenVersion | None = None
    now: Millis = NO_TIME
    record: t.Record | None = None
    last: t.Record | None = None


class ListTransactions(Read, frozen=True, gc=False):
    """Request records after the id `after`: of open transactions, or of committed ones."""

    open: bool
    app: str | None = None
    after: int = 0
    max: int = 100


class RecordFacts(Struct, frozen=True, gc=False):
    """A page of records, only those that the principal may see."""

    records: tuple[t.Record, ...]
    now: Millis
    more: bool


def foreign(by: Principal, app: t.App | None) -> Decision | None:
    """Refuse any account but the first that used the app."""
    if app is None or app.owner == by.account:
        return None
    return refuse(
        Refusal.FORBIDDEN,
        f"the transactions of {t.name_of_transaction(app.name)} are another account's",
    )


def barred(
    by: Principal, app: t.App | None, version: t.OpenVersion | None, number: int
) -> Decision | None:
    """Refuse what depends on a damaged row, and any account but the first that used the app.

    What the mark of the app counts as committed needs no row of its own.
    """
    if app is not None and app.damaged:
        return APP_DAMAGED
    if (no := foreign(by, app)) is not None:
        return no
    return (
        VERSION_DAMAGED
        if version is not None and version.damaged and not done(app, number)
        else None
    )


def done(app: t.App | None, version: int) -> bool:
    """Return whether the version counts as committed."""
    return app is not None and app.version is not None and version <= app.version


def seen_by(principal: Principal) -> Jid | None:
    """Return the account whose transactions the principal sees; None means all."""
    return None if principal.admin else principal.account


def stage(request: StagePublish, facts: StageFacts) -> Decision:
    """Decide a publish within a transaction. Everything that can be refused is refused here, not at commit."""
    wanted, mark = request.publish, request.mark
    if (no := barred(wanted.by, facts.app, facts.open, mark.version)) is not None:
        return no
    if done(facts.app, mark.version):
        ids = tuple(draft.id for draft in wanted.drafts)
        return Decision(t.Skipped(wanted.node, ids, mark.version))
    node = facts.publish.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    no = inadmissible(wanted, facts.publish, node)
    if (no := no or one_app_too_many(facts.app, facts.apps, facts.limits)) is not None:
        return no
    if (no := unkept(node)) is not None or not wanted.drafts:
        return no or refuse(Refusal.ITEM_REQUIRED)
    if facts.open is not None and facts.open.immediate is not mark.immediate:
        began = "immediate" if facts.open.immediate else "commit"
        return refuse(
            Refusal.BAD_REQUEST, f"version {mark.version} was begun with visibility {began}"
        )
    if (no := _too_much(wanted, facts)) is not None:
        return no
    return _at_once(request, facts, node) if mark.immediate else _aside(request, facts, node)


def unkept(node: Node) -> Decision | None:
    """Refuse a transaction over a node that does not keep its items: notices cannot be taken back."""
    if node.config.persists:
        return None
    return Decision(Refused(Refusal.UNSUPPORTED, setting="persistent-items"))


def one_app_too_many(app: t.App | None, apps: int, limits: t.Limits) -> Decision | None:
    """Refuse a new app of an account with its maximum number. None is dropped for it: its mark says what is committed."""
    if app is not None or apps < limits.apps_per_account:
        return None
    reason = (
        f"this account has {apps} apps, and may have {limits.apps_per_account}: "
        "an app is forgotten when it was not used for long"
    )
    return refuse(Refusal.TOO_MUCH_STAGED, reason)


def _too_much(wanted: Publish, facts: StageFacts) -> Decision | None:
    """Refuse what exceeds a quota; an item that overwrites one counts for what it adds."""
    items = sum(size is None for size in facts.sizes)
    size = sum(weight(draft.payload, draft.headers) for draft in wanted.drafts) - sum(
        size or 0 for size in facts.sizes
    )
    usage, limits = facts.usage, facts.limits
    mine, mine_bytes = usage.account_items, usage.account_bytes
    for what, has, used, more, limit in (
        ("items of this account", 0, mine, items, limits.items_per_account),
        ("bytes of this account", 0, mine_bytes, size, limits.bytes_per_account),
        ("items of the service", mine, usage.items, items, limits.items),
        ("bytes of the service", mine_bytes, usage.bytes, size, limits.bytes),
    ):
        if beyond_share(has, used, more, limit):
            reason = f"{used} {what} wait for a commit, and {limit} may: commit or abort some first"
            return refuse(Refusal.TOO_MUCH_STAGED, reason)
    return None


def _aside(request: StagePublish, facts: StageFacts, node: Node) -> Decision:
    rows = tuple(
        _row(draft, node, size)
        for draft, size in zip(request.publish.drafts, facts.sizes, strict=True)
    )
    ids = tuple(draft.id for draft in request.publish.drafts)
    return Decision(Published(node.name, ids), (_stage(request, facts, rows),))


def _row(draft: Draft, node: Node, over: int | None) -> t.StagedItem:
    state, _ = waiting(NO_TIME, draft.delay)
    pause = draft.delay if draft.delay > 0 else None
    size = weight(draft.payload, draft.headers)
    content = sum_of(draft.id, draft.payload, draft.group, draft.headers)
    return t.StagedItem(draft, state, pause, life_of(draft, node), size, over, sum=content)


def _stage(request: StagePublish, facts: StageFacts, rows: tuple[t.StagedItem, ...]) -> t.Stage:
    now = facts.publish.now
    until = later(now, facts.limits.staged_for)
    return t.Stage(request.mark, request.publish.by.account, request.publish.node, rows, now, until)


def _at_once(request: StagePublish, facts: StageFacts, node: Node) -> Decision:
    """Publish the items that the open version has not published yet, and record all of them for the commit."""
    fresh: list[tuple[Draft, int]] = []
    rows: list[t.StagedItem] = []
    for at, (draft, noted) in enumerate(zip(request.publish.drafts, facts.noted, strict=True)):
        row = _row(draft, node, facts.sizes[at])
        if noted is None:
            fresh.append((draft, at))
            row = replace(row, known=facts.publish.existing[at][0] in {Known.SAME, Known.FINISHED})
        elif not noted[0]:
            return refuse(
                Refusal.ITEM_EXISTS,
                f"item {draft.id} was published with another payload earlier in version "
                f"{request.mark.version}: a repeated task computed a different result",
            )
        rows.append(replace(row, known=noted[1]) if noted else row)
    decision = Decision(Done())
    if fresh:
        decision = publish_at_once(
            replace(request.publish, drafts=tuple(draft for draft, _ in fresh)),
            _only(facts.publish, [at for _, at in fresh]),
        )
    if isinstance(decision.reply, Refused):
        return decision
    ids = tuple(draft.id for draft in request.publish.drafts)
    transaction = request.mark.app, request.mark.version
    marked = [
        replace(one, transaction=transaction) if isinstance(one, AddItem) else one
        for one in decision.changes
    ]
    changes = (*marked, _stage(request, facts, tuple(rows)))
    reply = Published(node.name, ids)
    return replace(decision, reply=reply, changes=changes, then=None)


def _only(facts: PublishFacts, places: Sequence[int]) -> PublishFacts:
    """Return the facts about some of the drafts."""
    fed = tuple(replace(one, met=tuple(one.met[at] for at in places)) for one in facts.fed)
    return replace(facts, existing=tuple(facts.existing[at] for at in places), fed=fed)


def abort(request: AbortVersion, facts: AppFacts) -> Decision:
    """Drop staged items. A committed or unknown version stays as it is.

    So do the records of attempts at an immediate version: their items are in the queue, and a
    writer that repeats the version has to find them.

    Damaged rows: the whole of an open version can be dropped by its account. An administrator has a damaged mark, or the row of a
    committed version, written again. The mark is then the last record that is whole, and at least what precedes this version.
    """
    if facts.app is not None and facts.app.damaged:
        return _restored(request, facts)
    if not request.by.admin and (no := foreign(request.by, facts.app)) is not None:
        return no
    if facts.app is None:
        return Decision(Done())
    if done(facts.app, request.version):
        damaged = facts.record is not None and facts.record.damaged
        restore = (t.Restore(facts.app, request.version),) if damaged else ()
        return Decision(Done(), restore)
    if request.attempts is not None and facts.open is not None and facts.open.damaged:
        return VERSION_DAMAGED
    if request.attempts is not None and facts.open is not None and facts.open.immediate:
        return Decision(Done())
    return Decision(Done(), (t.Abort(request.app, request.version, request.attempts),))


def _restored(request: AbortVersion, facts: AppFacts) -> Decision:
    """Write a damaged mark again; the version that is aborted is committed only if there is a record of it."""
    if not request.by.admin or request.attempts is not None:
        return APP_DAMAGED
    known = -1 if facts.last is None else facts.last.version
    mark = max(known, request.version - 1)
    at = facts.now if facts.last is None or facts.last.committed is None else facts.last.committed
    none = mark < 0
    app = t.App(
        request.app,
        t.account_of_transaction(request.app),
        None if none else mark,
        None if none else at,
        facts.now,
    )
    changes: list[Change] = [t.Restore(app)]
    if mark < request.version:
        changes.append(t.Abort(request.app, request.version))
    return Decision(Done(), tuple(changes))


def last_version(request: AskLastVersion, facts: AppFacts) -> Decision:
    """Return the last version of the app, for its owner and administrators."""
    if facts.app is not None and facts.app.damaged:
        return APP_DAMAGED
    if not request.by.admin and (no := foreign(request.by, facts.app)) is not None:
        return no
    app = facts.app
    return Decision(
        t.LastVersion(
            t.name_of_transaction(request.app),
            app.version if app else None,
            app.committed if app else None,
        )
    )


def list_transactions(_request: ListTransactions, facts: RecordFacts) -> Decision:
    """Show the page."""
    return Decision(t.Transactions(facts.records, facts.now, facts.more))
