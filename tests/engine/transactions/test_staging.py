"""Transactions through rules and store, up to the commit and beside it: nothing is visible before."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.transactions import (
    APP,
    HOUR,
    MORE,
    aborts,
    commits,
    committed,
    ids,
    left_over,
    names,
    refusal,
    staged,
    stages,
    sweep,
)

from pubqueue.engine.facts.transactions import usage
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.model.transactions import (
    LastVersion,
    Limits,
    Record,
    Skipped,
    Totals,
    Transactions,
    key_of,
)
from pubqueue.rules.discovery import ListItems
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.staging import AskLastVersion, ListTransactions

# --- stage -------------------------------------------------------------------------------------------


def test_staged_items_are_not_visible(shell):
    shell.do(joins(ANN, 9))
    before = shell.look(lambda tx: tx.nodes())
    outcome = shell.batch(stages("a", "b"), stages("c", node=MORE))
    assert [d.reply for d in outcome.decisions] == [staged("a", "b"), staged("c", node=MORE)]
    assert outcome.deliveries == ()
    assert shell.look(lambda tx: tx.nodes()) == before
    assert shell.do(Retrieve(who(BOSS), JOBS)).items == ()
    assert shell.do(ListItems(who(BOSS), JOBS)).entries == ()


def test_the_same_id_again_within_an_attempt_overwrites_and_keeps_its_place(shell):
    shell.do(stages("a", payload=b"<one/>"))
    shell.do(stages("b"))
    shell.do(stages("a", payload=b"<two/>", delay=5))
    assert shell.do(commits((0, 0, 2))) == committed(2)
    assert ids(shell) == [("a", "two"), ("b", "job")]
    assert shell.look(lambda tx: tx.item(JOBS, "a")).state is State.DELAYED


def test_an_id_may_be_staged_and_published_beside(shell):
    shell.do(stages("a"))
    assert shell.do(publishes("a", payload=b"<other/>")) == staged("a")
    assert ids(shell) == [("a", "other")]


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (stages("a", node=NodeName("none")), Refusal.NODE_NOT_FOUND),
        (stages("a", by="eve@x/1"), Refusal.FORBIDDEN),
        (stages("a", payload=b"<x>" + b"x" * 70_000 + b"</x>"), Refusal.PAYLOAD_TOO_BIG),
        (stages("a", "b", "c", node=NodeName("small")), Refusal.TOO_MANY_ITEMS),
        (stages("a", node=NodeName("shut")), Refusal.PUBLISH_PAUSED),
    ],
    ids=["no node", "no right", "too big", "too many", "paused"],
)
def test_refusals_happen_at_staging(shell, request_, refused):
    shell.do(a_queue(NodeName("shut"), publish_paused=1))
    shell.do(a_queue(NodeName("small")))
    wanted = Settings({"max_items": 2})
    assert shell.do(Configure(who(BOSS, admin=True), NodeName("small"), wanted)) == Done()
    assert refusal(shell.do(request_)) is refused
    assert left_over(shell) == 0


def test_a_version_that_is_committed_is_skipped_and_so_are_older_ones(shell):
    shell.do(stages("a", version=7))
    shell.do(commits((0, 0, 1), version=7))
    sweep(shell)
    for version in (7, 6, 0):
        reply = shell.do(stages("b", "c", version=version, attempt=9))
        assert reply == Skipped(JOBS, (ItemId("b"), ItemId("c")), version)
    assert left_over(shell) == 0
    assert shell.do(stages("d", version=8)) == staged("d")


def test_an_app_is_the_account_s_that_first_spoke_for_it(shell):
    shell.do(stages("a"))
    assert shell.do(stages("b", by="etl@x/another-task")) == staged("b")
    for request in (
        stages("c", by=BOSS),
        commits((0, 0, 2), by=BOSS),
        aborts(by=BOSS),
        AskLastVersion(who(BOSS), APP),
    ):
        assert refusal(shell.do(request)) is Refusal.FORBIDDEN
    assert shell.do(AskLastVersion(who(BOSS, admin=True), APP)) == LastVersion(APP, None, None)
    assert shell.do(commits((0, 0, 2))) == committed(2)


# --- abort, and time ---------------------------------------------------------------------------------


def test_an_abort_drops_what_is_staged_and_the_version_may_begin_again(shell):
    shell.do(stages("a", "b", part=1))
    assert shell.do(aborts()) == Done()
    assert shell.do(stages("c", part=1)) == staged("c")
    assert shell.do(commits((1, 0, 1))) == committed(1)
    sweep(shell)
    assert (names(shell), left_over(shell)) == (["c"], 0)


def test_an_abort_that_names_its_attempts_drops_nothing_of_a_successor_s(shell):
    shell.do(stages("old", "a", part=0, attempt=1))
    shell.do(stages("b", part=1, attempt=1))
    shell.do(stages("a", part=0, attempt=2))
    assert shell.do(aborts((0, 1), (1, 1), (7, 7))) == Done()
    assert shell.look(lambda tx: usage(tx, "etl@x").account_items) == 1
    sweep(shell)
    assert left_over(shell) == 1 + 1 + 2 + 1
    assert shell.do(commits((0, 2, 1))) == committed(1)
    sweep(shell)
    assert (names(shell), left_over(shell)) == (["a"], 0)


def test_with_the_last_of_its_attempts_the_version_is_dropped(shell):
    shell.do(stages("a", attempt=1))
    assert shell.do(aborts((0, 1))) == Done()
    sweep(shell)
    assert left_over(shell) == 0
    assert shell.do(stages("a", immediate=True)) == staged("a")


def test_published_items_of_an_attempt_are_known_after_its_abort(shell):
    shell.do(joins(ANN))
    shell.do(stages("a", immediate=True, attempt=1))
    assert shell.do(retracts(ANN, "a")) == Done()
    assert shell.do(aborts((0, 1))) == Done()
    assert shell.do(stages("a", immediate=True, attempt=2)) == staged("a")
    assert names(shell) == []


def test_an_abort_of_what_is_committed_or_unknown_does_nothing(shell):
    shell.do(stages("a"))
    shell.do(commits((0, 0, 1)))
    sweep(shell)
    before = shell.dump()
    for request in (aborts(), aborts(version=0), aborts(version=5), aborts(app="unheard-of")):
        assert shell.do(request) == Done()
    assert shell.dump() == before


def test_an_administrator_may_abort_what_others_have_left(shell):
    shell.do(stages("a"))
    assert shell.do(aborts(by=BOSS, admin=True)) == Done()
    sweep(shell)
    assert left_over(shell) == 0


def test_uncommitted_items_expire(shell):
    shell.limits = Limits(staged_for=HOUR)
    shell.do(stages("a"))
    shell.wait(3000)
    shell.do(stages("b"))
    shell.wait(3000)
    sweep(shell)
    assert left_over(shell) > 0
    shell.wait(700)
    sweep(shell)
    assert left_over(shell) == 0
    assert shell.do(commits((0, 0, 2))).refusal is Refusal.NOT_AS_STAGED


def test_marks_and_records_are_forgotten_long_after_their_last_use(shell):
    shell.limits = Limits(kept_for=HOUR)
    shell.do(stages("a"))
    shell.do(commits((0, 0, 1)))
    shell.wait(3000)
    shell.do(stages("b", version=2))
    shell.do(commits((0, 0, 1), version=2))
    shell.wait(3000)
    shell.do(Expire())
    assert [r.version for r in listed(shell).records] == [2]
    assert shell.do(AskLastVersion(who(ETL), APP)) == LastVersion(APP, 2, after(3000))
    shell.wait(700)
    shell.do(Expire())
    assert listed(shell).records == ()
    assert shell.do(AskLastVersion(who(BOSS), APP)) == LastVersion(APP, None, None)


# --- quotas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        Limits(items_per_account=3),
        Limits(bytes_per_account=18),
        Limits(items=3),
        Limits(bytes=18),
    ],
)
def test_beyond_a_quota_the_publisher_has_to_wait(shell, limits):
    shell.limits = limits
    shell.do(stages("a", "b"))
    assert shell.do(stages("c", app="another")) == staged("c")
    reply = shell.do(stages("d"))
    assert refusal(reply) is Refusal.TOO_MUCH_STAGED
    assert " wait for a commit, and " in reply.reason
    assert shell.do(stages("a", "b")) == staged("a", "b")  # again: nothing is added
    shell.do(commits((0, 0, 2)))
    assert shell.do(stages("d", "e", version=2)) == staged("d", "e")


def test_a_quota_belongs_to_one_account(shell):
    shell.limits = Limits(items_per_account=2)
    shell.do(stages("a", "b"))
    assert shell.do(stages("c", "d", app="boss", by=BOSS)) == staged("c", "d")
    assert refusal(shell.do(stages("e", app="boss", by=BOSS))) is Refusal.TOO_MUCH_STAGED


def test_an_account_has_so_many_apps_also_those_of_one_batch_until_one_is_forgotten(shell):
    """The mark of an app says what is committed, so none is dropped for another; one of which nothing is left is."""
    shell.limits = Limits(apps_per_account=2, staged_for=HOUR, kept_for=HOUR)
    one, two, three = (key_of(Jid("etl@x"), name) for name in ("one", "two", "three"))
    others = key_of(Jid("boss@x"), "one")
    batch = shell.batch(*(stages("a", app=app) for app in (one, two, three)), stages("b", app=one))
    replies = [decision.reply for decision in batch.decisions]
    assert [isinstance(reply, Refused) for reply in replies] == [False, False, True, False]
    assert refusal(replies[2]) is Refusal.TOO_MUCH_STAGED
    assert refusal(shell.do(commits(app=three))) is Refusal.TOO_MUCH_STAGED
    assert shell.do(stages("c", app=others, by=BOSS)) == staged("c")
    assert shell.do(commits((0, 0, 1), app=two)) == committed(1)
    shell.wait(3000)
    assert shell.do(stages("d", app=two, version=2)) == staged("d")
    shell.wait(9000)
    sweep(shell)
    assert shell.do(commits(app=three)) == committed(0)


# --- visible at once ---------------------------------------------------------------------------------


def test_immediate_items_are_handed_out_before_the_commit(shell):
    shell.do(joins(ANN, 9))
    outcome = shell.batch(stages("a", immediate=True))
    assert outcome.decisions[0].reply == staged("a")
    assert [notice.item.id for notice in outcome.deliveries] == ["a"]
    assert shell.do(commits((0, 0, 1))) == committed(1)
    assert shell.do(stages("b", immediate=True)) == Skipped(JOBS, (ItemId("b"),), 1)


def test_an_id_of_the_open_version_is_published_once_even_if_it_is_done_by_then(shell):
    shell.do(joins(ANN, 9))
    shell.do(stages("a", immediate=True, attempt=1))
    assert shell.do(retracts(ANN, "a")) == Done()
    outcome = shell.batch(stages("a", "b", immediate=True, attempt=2))
    assert outcome.decisions[0].reply == staged("a", "b")
    assert [notice.item.id for notice in outcome.deliveries] == ["b"]
    assert shell.do(commits((0, 2, 2))) == committed(2)
    sweep(shell)
    assert left_over(shell) == 0


def test_another_payload_in_the_open_version_is_a_conflict_that_names_its_cause(shell):
    shell.do(stages("a", immediate=True, version=41, attempt=1))
    request = stages("b", "a", immediate=True, version=41, attempt=2, payload=b"<new/>")
    reply = shell.do(request)
    assert reply == Refused(
        Refusal.ITEM_EXISTS,
        "item a was published with another payload earlier in version 41: "
        "a repeated task computed a different result",
    )
    assert names(shell) == ["a"]


def test_items_that_were_there_before_the_version_are_known(shell):
    shell.do(publishes("a"))
    shell.do(stages("a", "b", immediate=True, attempt=1))
    shell.do(stages("a", "b", immediate=True, attempt=2))
    assert shell.do(commits((0, 2, 2))) == committed(1, 1)


def test_a_refused_publish_is_not_recorded(shell):
    shell.do(joins(ANN, 9))
    shell.do(publishes("a"))
    request = stages("b", "a", immediate=True, payload=b"<new/>")
    assert refusal(shell.do(request)) is Refusal.ITEM_LOCKED
    assert (names(shell), left_over(shell)) == (["a"], 0)


@pytest.mark.parametrize("first", [True, False])
def test_a_version_is_of_one_kind(shell, first):
    shell.do(stages("a", immediate=first))
    reply = shell.do(stages("b", immediate=not first))
    assert refusal(reply) is Refusal.BAD_REQUEST


def test_an_aborted_version_leaves_behind_what_was_seen(shell):
    shell.do(stages("a", immediate=True))
    assert shell.do(aborts()) == Done()
    assert names(shell) == ["a"]
    assert shell.do(stages("a", immediate=True)) == staged("a")
    assert shell.do(commits((0, 0, 1))) == committed(0, 1)


# --- records -----------------------------------------------------------------------------------------


def listed(shell, by=BOSS, *, waiting=False, admin=True, **which):
    return shell.do(ListTransactions(who(by, admin=admin), waiting, **which))


def test_administrators_see_all_transactions_and_others_their_own(shell):
    reported = Totals(skipped=1, dead_lettered=2, seconds=0.5)
    shell.do(stages("a", "b", version=5))
    shell.wait(1)
    shell.do(commits((0, 0, 2), version=5, totals=reported))
    shell.do(stages("c", app="boss", by=BOSS))
    mine = Record(2, APP, Jid("etl@x"), 5, after(0), after(1), 2, 12, reported)
    theirs = Record(3, "boss", Jid("boss@x"), 1, after(1), None, 1, 6)
    assert listed(shell) == Transactions((mine,), shell.now, more=False)
    assert listed(shell, waiting=True) == Transactions((theirs,), shell.now, more=False)
    assert listed(shell, ETL, admin=False).records == (mine,)
    assert listed(shell, ETL, admin=False, waiting=True).records == ()
    assert listed(shell, app="boss").records == ()
    assert listed(shell, waiting=True, app="boss").records == (theirs,)


def test_records_come_in_pages(shell):
    for version in range(5):
        shell.do(commits((0, 0, 0), version=version))
    first = listed(shell, max=2)
    assert ([r.version for r in first.records], first.more) == ([0, 1], True)
    rest = listed(shell, after=first.records[-1].id, max=3)
    assert ([r.version for r in rest.records], rest.more) == ([2, 3, 4], False)


# --- faults ------------------------------------------------------------------------------------------


def test_a_request_that_fails_takes_nothing_of_its_neighbours_with_it(shell, monkeypatch):
    """The counts of a batch must not include changes that a savepoint has undone."""
    bad = stages("bad", node=MORE)
    original = shell.same

    def breaks(one, other):
        if b"bad" in other:
            raise RuntimeError("a fault of the test's")
        return original(one, other)

    shell.same = breaks
    shell.do(publishes("x", node=MORE))
    good = [stages(f"i{n}", version=2) for n in range(3)]
    shell.do(stages("x", node=MORE, payload=b"<bad/>"))
    outcome = shell.batch(*good, commits((0, 0, 1)), stages("i3", version=2), bad)
    kinds = [type(decision.reply).__name__ for decision in outcome.decisions]
    assert kinds == ["Published"] * 3 + ["Refused"] + ["Published"] * 2
    shell.same = original
    assert shell.do(commits((0, 0, 4), version=2)) == committed(4, version=2)
    sweep(shell)
    assert left_over(shell) == 0
