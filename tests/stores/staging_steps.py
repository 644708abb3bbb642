"""The steps of what waits for a commit: stage it, choose the winners, and commit them."""

from __future__ import annotations

from harness.batches.facts import JOBS, NOW, after, draft
from stores.steps import (
    load,
)

from pubqueue.engine.listings import WinnerClasses, Winners
from pubqueue.engine.rows import WAITING, Judged, Writes
from pubqueue.model.entities import Jid, NodeName, State
from pubqueue.model.sums import sum_of
from pubqueue.model.transactions import (
    Commit,
    CommittedNode,
    Mark,
    Stage,
    StagedItem,
    Totals,
    Version,
)

ETL = Jid("etl@x")
TOTALS = Totals(1, 2, 0.5)
MORE = NodeName("more")
OPEN = Version("app", 1, ETL, False, NOW, after(60))  # noqa: FBT003


def row(name: str, payload: bytes = b"<job/>", over: int | None = None, **changes) -> StagedItem:
    known = {"state": State.QUEUED, "pause": None, "life": None, "size": len(payload)}
    of_draft = {key: changes.pop(key) for key in ("priority", "headers") if key in changes}
    made = draft(name, payload, **of_draft)
    content = sum_of(made.id, payload, made.group, made.headers)
    return StagedItem(made, **(known | changes), over=over, sum=content)


def stage(*rows: StagedItem, node: NodeName = JOBS, **mark) -> Stage:
    kind = {"immediate": mark.pop("immediate", False)}
    place = {"app": "app", "version": 1, "part": 0, "attempt": 0} | mark
    return Stage(Mark(**place, **kind), ETL, node, rows, NOW, after(60))


def commit(added: int = 0, *, replaced: int = 0, version: int = 1, **changes) -> Commit:
    outcome = CommittedNode(
        changes.get("node", JOBS), changes.get("queueing", True), added, replaced, 0
    )
    return Commit("app", ETL, version, after(1), (outcome,), added, 6 * added, TOTALS)


def choose(tx, *parts, version=1):
    return tx.page(Winners("app", version, parts), None, 99)


def classes(tx, node=JOBS):
    found = [
        (one.state, one.same, one.count, one.first)
        for one in tx.page(WinnerClasses(node), None, 99)
    ]
    return sorted(found)


def judge(tx, *verdicts):
    tx.write(Writes(NOW, bulk=[Judged(verdicts)]))


async def commits(store, *parts, change, before=lambda tx: None, entries=()):
    """Choose the winners and commit them in one transaction, as a request does."""

    def job(tx):
        found = choose(tx, *parts, version=change.version)
        before(tx)
        tx.write(Writes(after(1), events=list(entries), bulk=[change]))
        return sorted(found, key=lambda one: one.node)

    return await store.batch(job)


async def waits(store, *accounts):
    """Return what waits for these accounts, and in all; nothing where there is no row for it."""
    found = (await load(store, waiting={*accounts, ""})).of[WAITING]
    return {one.account: (one.items, one.bytes) for one in found if one.items or one.bytes}
