"""Transactions up to their commit: permissions, skipped, staged and refused items."""

import pytest
from harness.batches.facts import BOSS, ETL, JOBS, NOW, after, draft, queue, waiting, who
from harness.batches.queue_requests import publishes
from harness.batches.transactions import APP, aborts, stages

from pubqueue.model.changes import AddItem
from pubqueue.model.decision import Decision, Done, Published, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, Millis, State, seconds
from pubqueue.model.sums import sum_of
from pubqueue.model.transactions import (
    DAY,
    Abort,
    App,
    LastVersion,
    Limits,
    Mark,
    OpenVersion,
    Skipped,
    Stage,
    StagedItem,
    Usage,
)
from pubqueue.rules.publication import Known, PublishFacts
from pubqueue.rules.staging import AppFacts, AskLastVersion, StageFacts, abort, last_version, stage

OWN = App(APP, Jid("etl@x"))
OK = Published(JOBS, (ItemId("a"),))


def ask(request=None, *, node=None, existing=((Known.NEW, None),), **facts):
    """Stage as `etl`, a publisher of JOBS; `existing` are the node's items, for immediate publishes."""
    known = {"app": OWN, "open": None, "usage": Usage(), "limits": Limits(), "sizes": (None,)}
    node = queue() if node is None else node
    may = PublishFacts(NOW, node, Affiliation.PUBLISHER, subscribed=False, existing=existing)
    return stage(request or stages("a"), StageFacts(publish=may, **(known | facts)))


def row(**changes):
    content = sum_of(ItemId("a"), draft("a").payload)
    known = {"state": State.QUEUED, "pause": None, "life": None, "size": 6, "sum": content}
    return StagedItem(draft("a"), **(known | changes))


def staged(*rows, immediate=False):
    mark = Mark(APP, 1, immediate=immediate)
    return Stage(mark, Jid("etl@x"), JOBS, rows, NOW, Millis(NOW + DAY))


def refused(decision):
    assert (decision.changes, decision.notices) == ((), ())
    return decision.reply.refusal


def test_an_item_waits_and_its_publisher_gets_the_usual_answer():
    assert ask() == Decision(OK, (staged(row()),))
    assert ask(app=None) == ask()


def test_times_are_spans_from_the_commit():
    given = stages("a", delay=5, ttl=90)
    (change,) = ask(given, node=queue(item_expire=60)).changes
    (waits,) = change.rows
    assert (waits.state, waits.pause, waits.life) == (State.DELAYED, seconds(5), seconds(60))


def test_an_item_counts_for_its_payload_and_its_headers():
    (change,) = ask(stages("a", headers=(("käse", "1"),))).changes
    assert change.rows[0].size == len(b"<job/>") + len("käse1".encode())


# fmt: off
RISING = [
    (None, 0, False),
    (0,    0, True),
    (6,    7, False),
    (7,    7, True),
    (8,    7, True),
]
# fmt: on


@pytest.mark.parametrize(("last", "version", "skips"), RISING)
def test_versions_must_rise(last, version, skips):
    app = App(APP, Jid("etl@x"), last, None if last is None else NOW)
    decision = ask(stages("a", version=version), app=app)
    skipped = Decision(Skipped(JOBS, (ItemId("a"),), version))
    assert (decision == skipped) == skips
    dropped = abort(aborts(version=version), AppFacts(app))
    assert dropped == Decision(Done(), () if skips else (Abort(APP, version),))


def test_a_skipped_publish_needs_no_node():
    may = PublishFacts(NOW, None, Affiliation.NONE, subscribed=False, existing=())
    app = App(APP, Jid("etl@x"), 1, NOW)
    facts = StageFacts(may, app, None, Usage(), Limits(), ())
    assert isinstance(stage(stages("a"), facts).reply, Skipped)
    fresh = StageFacts(may, None, None, Usage(), Limits(), ())
    assert refused(stage(stages("a"), fresh)) is Refusal.NODE_NOT_FOUND


def test_an_app_is_one_account_s_and_no_administrator_publishes_in_its_name():
    request = stages("a")
    by_boss = stages("a", by=BOSS)
    assert ask(request) == Decision(OK, (staged(row()),))
    assert refused(ask(by_boss)) is Refusal.FORBIDDEN
    asked = AskLastVersion(who(BOSS), APP)
    assert refused(last_version(asked, AppFacts(OWN))) is Refusal.FORBIDDEN
    assert refused(abort(aborts(by=BOSS), AppFacts(OWN))) is Refusal.FORBIDDEN


def test_administrators_may_look_and_may_clear_up():
    app = App(APP, Jid("etl@x"), 4, after(-9))
    asked = AskLastVersion(who(BOSS, admin=True), APP)
    assert last_version(asked, AppFacts(app)) == Decision(LastVersion(APP, 4, after(-9)))
    cleared = abort(aborts(by=BOSS, admin=True, version=5), AppFacts(app))
    assert cleared == Decision(Done(), (Abort(APP, 5),))


def test_an_unknown_app_has_no_version():
    assert last_version(AskLastVersion(who(ETL), APP), AppFacts(None)) == Decision(
        LastVersion(APP, None, None)
    )
    assert abort(aborts(), AppFacts(None)) == Decision(Done())


def test_staging_refuses_what_a_publish_refuses():
    paused = queue(publish_paused=True)
    assert refused(ask(node=paused)) is Refusal.PUBLISH_PAUSED
    assert refused(ask(node=queue(max_payload_size=5))) is Refusal.PAYLOAD_TOO_BIG


FULL = Limits(items_per_account=10, bytes_per_account=100, items=20, bytes=200)


# fmt: off
QUOTAS = [
    (Usage(9, 94, 9, 94),     None, True),
    (Usage(9, 94, 19, 194),   None, False),  # others have as much, and little is left
    (Usage(5, 40, 12, 100),   None, True),
    (Usage(5, 40, 15, 100),   None, False),
    (Usage(5, 40, 12, 155),   None, False),
    (Usage(0, 0, 19, 194),    None, True),   # one that has nothing gets what is left
    (Usage(10, 0, 10, 0),     None, False),
    (Usage(0, 95, 0, 95),     None, False),
    (Usage(0, 0, 20, 0),      None, False),
    (Usage(0, 0, 0, 195),     None, False),
    (Usage(10, 100, 20, 200), 6,    True),   # again, the same
    (Usage(10, 100, 20, 200), 5,    False),  # again, and larger
    (Usage(99, 999, 99, 999), 7,    True),   # smaller: it helps, whatever the limit is by now
]
# fmt: on


@pytest.mark.parametrize(("usage", "over", "allowed"), QUOTAS)
def test_quotas_count_what_is_added(usage, over, allowed):
    decision = ask(usage=usage, limits=FULL, sizes=(over,))
    assert isinstance(decision.reply, Published) == allowed
    if not allowed:
        assert refused(decision) is Refusal.TOO_MUCH_STAGED
        assert decision.reply.reason.endswith("may: commit or abort some first")


@pytest.mark.parametrize(
    ("apps", "app", "allowed"), [(1, None, True), (2, None, False), (3, OWN, True)]
)
def test_an_account_has_so_many_apps_and_goes_on_with_those_that_it_has(apps, app, allowed):
    decision = ask(app=app, apps=apps, limits=Limits(apps_per_account=2))
    assert isinstance(decision.reply, Published) == allowed
    if not allowed:
        assert refused(decision) is Refusal.TOO_MUCH_STAGED
        assert decision.reply.reason.startswith("this account has 2 apps, and may have 2")


@pytest.mark.parametrize("began", [True, False])
def test_a_version_is_of_one_kind(began):
    request = stages("a", immediate=not began)
    decision = ask(request, open=OpenVersion(began, 1, 6), noted=(None,))
    assert refused(decision) is Refusal.BAD_REQUEST


# --- visible at once ---------------------------------------------------------------------------------

AT_ONCE = stages("a", immediate=True)


def added():
    return AddItem(JOBS, draft("a"), Jid("etl@x"), NOW, State.QUEUED, None, None, ("nightly", 1))


@pytest.mark.parametrize(
    ("existing", "noted", "changes"),
    [
        ((Known.NEW, None), None, (added(), staged(row(), immediate=True))),
        ((Known.SAME, waiting()), None, (staged(row(known=True), immediate=True),)),
        ((Known.FINISHED, None), None, (staged(row(known=True), immediate=True),)),
        ((Known.SAME, waiting()), (True, False), (staged(row(), immediate=True),)),
        ((Known.NEW, None), (True, False), (staged(row(), immediate=True),)),
        ((Known.NEW, None), (True, True), (staged(row(known=True), immediate=True),)),
    ],
    ids=["new", "there", "finished", "again", "again, and done", "again, and known before"],
)
def test_an_id_is_published_once_in_a_version(existing, noted, changes):
    assert ask(AT_ONCE, existing=(existing,), noted=(noted,)) == Decision(OK, changes)


def test_another_payload_in_the_open_version_is_a_conflict():
    decision = ask(AT_ONCE, existing=((Known.NEW, None),), noted=((False, False),))
    assert refused(decision) is Refusal.ITEM_EXISTS
    assert "version 1" in decision.reply.reason


def test_a_refused_publish_is_not_recorded():
    item = waiting(state=State.DEAD)
    decision = ask(AT_ONCE, existing=((Known.OTHER, item),), noted=(None,))
    assert decision == Decision(
        Refused(Refusal.ITEM_EXISTS, "item a is dead here: redrive or retract it")
    )


def test_a_publish_without_a_mark_knows_nothing_of_this():
    assert publishes("a") == stages("a").publish
