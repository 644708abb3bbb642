"""Transactions through rules and store: nothing is seen before the commit, and everything once after it."""

import itertools

import pytest
from harness.asks import a_queue, joins, publishes, retracts
from harness.facts import ANN, BOSS, ETL, JOBS, after, who
from harness.picture import ALL, recount
from harness.shell import Shell
from harness.txns import APP, aborts, commits, left_over, stages

from pubqueue.core.decision import (
    Announce,
    Done,
    Published,
    Refusal,
    Refused,
)
from pubqueue.core.expire import Expire
from pubqueue.core.manage import Configure, Create, Delete, ListItems
from pubqueue.core.model import ItemId, Jid, NodeName, State, seconds
from pubqueue.core.retrieve import Retrieve
from pubqueue.core.subscribe import Subscribe
from pubqueue.core.transactions import (
    Committed,
    Limits,
    Marked,
    Record,
    Skipped,
    Told,
    Transactions,
)
from pubqueue.core.txn import AskMark, ListTransactions

MORE, NEWS = NodeName("more"), NodeName("news")
HOUR = seconds(3600)


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(a_queue())
    shell.do(a_queue(MORE))
    yield shell
    assert shell.look(recount) == []
    shell.close()


def ids(shell, node=JOBS):
    """Return the items of a node, in their order, with their payloads."""
    found = shell.look(lambda tx: [(i.id, p) for i, p in tx.oldest(node, None, 0, ALL)])
    return [(name, payload.decode().strip("</>")) for name, payload in found]


def names(shell, node=JOBS):
    return [name for name, _ in ids(shell, node)]


def refusal(reply):
    assert isinstance(reply, Refused), reply
    return reply.refusal


def staged(*given, node=JOBS):
    return Published(node, tuple(map(ItemId, given)))


def committed(published, known=0, *, version=1, already=False):
    return Committed(version, published, known, already)


def sweep(shell):
    """Let the reaper do what it would do by and by."""
    while (moment := shell.look(lambda tx: tx.next_moment())) is not None and moment <= shell.now:
        assert shell.do(Expire()) == Done()


# --- stage -------------------------------------------------------------------------------------------


def test_what_is_staged_is_seen_nowhere(shell):
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
def test_what_can_be_refused_is_refused_when_it_is_staged(shell, request_, refused):
    shell.do(a_queue(NodeName("shut"), publish_paused=1))
    shell.do(a_queue(NodeName("small")))
    form = {"pubsub#max_items": ["2"]}
    assert shell.do(Configure(who(BOSS, admin=True), NodeName("small"), form)) == Done()
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
        AskMark(who(BOSS), APP),
    ):
        assert refusal(shell.do(request)) is Refusal.FORBIDDEN
    assert shell.do(AskMark(who(BOSS, admin=True), APP)) == Marked(APP, None, None)
    assert shell.do(commits((0, 0, 2))) == committed(2)


# --- commit ------------------------------------------------------------------------------------------


def test_the_winners_appear_by_part_and_then_as_they_came_and_the_losers_go(shell):
    shell.do(stages("b1", part=1, attempt=5))
    shell.do(stages("lost", part=0, attempt=3))
    shell.do(stages("a1", part=0, attempt=4))
    shell.do(stages("b2", part=1, attempt=5))
    shell.do(stages("a2", part=0, attempt=4))
    shell.do(stages("lost", part=2, attempt=6))
    assert shell.do(commits((1, 5, 2), (0, 4, 2))) == committed(4)
    assert names(shell) == ["a1", "a2", "b1", "b2"]
    sweep(shell)
    assert left_over(shell) == 0


def test_all_nodes_are_written_in_one_step_and_handed_out_at_once(shell):
    shell.do(joins(ANN, 9))
    shell.do(joins(ANN, 9, node=MORE))
    shell.do(stages("a"))
    shell.do(stages("b", node=MORE))
    outcome = shell.batch(commits((0, 0, 2)))
    assert [(n.item.node, n.item.id) for n in outcome.deliveries] == [(JOBS, "a"), (MORE, "b")]


def test_priority_delay_and_life_count_from_the_commit(shell):
    shell.do(stages("a", priority=4, delay=60, ttl=120))
    shell.wait(30)
    shell.do(commits((0, 0, 1)))
    item = shell.look(lambda tx: tx.item(JOBS, "a"))
    assert (item.priority, item.state, item.published) == (4, State.DELAYED, after(30))
    assert (item.due, item.expires, item.publisher) == (after(90), after(150), Jid("etl@x"))


@pytest.mark.parametrize("parts", [[(0, 4, 2)], [(0, 4, 0)], [(0, 4, 1), (1, 4, 1)], []])
def test_a_commit_that_names_another_number_is_refused_and_nothing_is_seen(shell, parts):
    shell.do(stages("a", attempt=4))
    before = shell.dump()
    reply = shell.do(commits(*parts))
    assert refusal(reply) is Refusal.NOT_AS_STAGED
    assert reply.reason
    assert shell.dump() == before
    assert shell.do(commits((0, 4, 1))) == committed(1)


def test_a_part_without_items_need_not_have_been_heard_of(shell):
    shell.do(stages("a", attempt=4))
    assert shell.do(commits((0, 4, 1), (1, 5, 0))) == committed(1)
    assert shell.do(commits((0, 9, 0), version=2)) == committed(0, version=2)
    assert shell.do(AskMark(who(ETL), APP)) == Marked(APP, 2, shell.now)


def test_a_commit_said_again_says_what_it_did(shell):
    shell.do(stages("a", "b"))
    shell.do(commits((0, 0, 2)))
    assert shell.do(commits((0, 0, 2))) == committed(2, already=True)
    assert shell.do(commits((0, 3, 99), version=0)) == committed(0, version=0, already=True)
    assert names(shell) == ["a", "b"]


def test_older_versions_that_nobody_committed_go_with_it_and_newer_ones_stay(shell):
    for version in (1, 2, 3):
        shell.do(stages(f"v{version}", version=version))
    assert shell.do(commits((0, 0, 1), version=2)) == committed(1, version=2)
    sweep(shell)
    assert names(shell) == ["v2"]
    assert shell.do(commits((0, 0, 1), version=3)) == committed(1, version=3)
    assert names(shell) == ["v2", "v3"]


STATES = ("new", "queued", "delayed", "locked", "dead", "finished")


def meet(shell, state):
    """Have an item `a` with the payload <job/> in this state."""
    shell.do(a_queue(NodeName("trial"), max_failures=1, dedup_window=60, lock_timeout=10))
    node = NodeName("trial")
    if state == "new":
        return node
    shell.do(publishes("a", node=node, delay=9 if state == "delayed" else 0))
    if state in {"locked", "dead", "finished"}:
        shell.do(joins(ANN, 1, node=node))
    if state == "finished":
        assert shell.do(retracts(ANN, "a", node=node)) == Done()
    if state == "dead":
        shell.wait(11)
        assert shell.do(Expire()) == Done()
    return node


@pytest.mark.parametrize(("state", "payload"), [*itertools.product(STATES, [b"<job/>", b"<new/>"])])
def test_ids_that_are_there_are_treated_as_a_publish_treats_them(tmp_path, state, payload):
    """The same story twice, once with a publish and once with a commit, ends the same."""
    ends = []
    for how in ("publish", "commit"):
        shell = Shell(tmp_path / f"{how}.db")
        node = meet(shell, state)
        if how == "publish":
            reply = shell.do(publishes("a", node=node, payload=payload))
        else:
            shell.do(stages("a", node=node, payload=payload))
            reply = shell.do(commits((0, 0, 1)))
        kind = reply.refusal if isinstance(reply, Refused) else "done"
        items = shell.look(lambda tx, n=node: tx.oldest(n, None, 0, ALL))
        ends.append((kind, items))
        if kind != "done":
            assert reply.reason.startswith("item a is ")
            assert names(shell, node) == ["a"]
        assert shell.look(recount) == []
        shell.close()
    assert ends[0] == ends[1]


def test_payloads_are_compared_by_meaning(shell):
    shell.same = lambda one, other: one.lower() == other.lower()
    shell.do(publishes("a", "b"))
    shell.do(stages("a", payload=b"<JOB/>"))
    shell.do(stages("b", payload=b"<new/>"))
    assert shell.do(commits((0, 0, 2))) == committed(1, 1)
    assert ids(shell) == [("a", "job"), ("b", "new")]


def test_of_two_parts_with_one_id_the_last_counts(shell):
    shell.do(stages("a", "b", payload=b"<one/>"))
    shell.do(stages("a", part=1, payload=b"<two/>"))
    shell.do(publishes("b"))
    assert shell.do(commits((0, 0, 2), (1, 0, 1))) == committed(2, 1)
    assert sorted(ids(shell)) == [("a", "two"), ("b", "one")]


def test_a_full_node_refuses_the_whole_version(shell):
    form = {"pubsub#max_items": ["2"]}
    shell.do(Configure(who(BOSS), JOBS, form))
    shell.do(stages("a", "b"))
    shell.do(stages("x", node=MORE))
    shell.do(stages("c"))
    reply = shell.do(commits((0, 0, 4)))
    assert (reply.refusal, reply.limit) == (Refusal.NODE_FULL, 2)
    assert (names(shell), names(shell, MORE)) == ([], [])


def test_a_node_that_is_gone_by_then_refuses_the_whole_version(shell):
    shell.do(stages("a"))
    shell.do(stages("x", node=MORE))
    shell.do(Delete(who(BOSS), MORE))
    assert refusal(shell.do(commits((0, 0, 2)))) is Refusal.NODE_NOT_FOUND
    assert names(shell) == []


def test_a_right_that_is_lost_by_then_refuses_the_whole_version(shell):
    shell.do(stages("a"))
    shell.do(Configure(who(BOSS), JOBS, {"x-queueing#publish_paused": ["1"]}))
    assert refusal(shell.do(commits((0, 0, 1)))) is Refusal.PUBLISH_PAUSED


def test_a_plain_node_is_overwritten_and_announced(shell):
    form = {"pubsub#publish_model": ["open"]}
    shell.do(Create(who(BOSS, admin=True), NEWS, form))
    shell.do(Subscribe(who(ANN), NEWS, ANN, "sub-1", None))
    shell.do(publishes("old", "b", node=NEWS))
    request = stages("a", "b", node=NEWS, payload=b"<news/>")
    shell.do(request)
    shell.do(stages("b", node=NEWS, payload=b"<last/>", part=1))
    (decision,) = shell.batch(commits((0, 0, 2), (1, 0, 1))).decisions
    assert decision.reply == committed(2, 1)
    assert ids(shell, NEWS) == [("old", "job"), ("a", "news"), ("b", "last")]
    told = [(n.to, n.node, n.draft.id, n.draft.payload) for n in decision.notices]
    assert told == [(ANN, NEWS, "a", b"<news/>"), (ANN, NEWS, "b", b"<last/>")]
    assert all(isinstance(notice, Announce) for notice in decision.notices)


# --- abort, and time ---------------------------------------------------------------------------------


def test_an_abort_drops_what_is_staged_and_the_version_may_begin_anew(shell):
    shell.do(stages("a", "b", part=1))
    assert shell.do(aborts()) == Done()
    assert shell.do(stages("c", part=1)) == staged("c")
    assert shell.do(commits((1, 0, 1))) == committed(1)
    sweep(shell)
    assert (names(shell), left_over(shell)) == (["c"], 0)


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


def test_what_nobody_commits_goes_after_its_time(shell):
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
    assert shell.do(AskMark(who(ETL), APP)) == Marked(APP, 2, after(3000))
    shell.wait(700)
    shell.do(Expire())
    assert listed(shell).records == ()
    assert shell.do(AskMark(who(BOSS), APP)) == Marked(APP, None, None)


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


def test_a_quota_of_an_account_is_nobody_else_s(shell):
    shell.limits = Limits(items_per_account=2)
    shell.do(stages("a", "b"))
    assert shell.do(stages("c", "d", app="boss", by=BOSS)) == staged("c", "d")
    assert refusal(shell.do(stages("e", app="boss", by=BOSS))) is Refusal.TOO_MUCH_STAGED


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
        "a repeated task has computed it anew",
    )
    assert names(shell) == ["a"]


def test_items_that_were_there_before_the_version_are_known(shell):
    shell.do(publishes("a"))
    shell.do(stages("a", "b", immediate=True, attempt=1))
    shell.do(stages("a", "b", immediate=True, attempt=2))
    assert shell.do(commits((0, 2, 2))) == committed(1, 1)


def test_what_a_queue_refuses_is_not_noted(shell):
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
    told = Told(skipped=1, dead_lettered=2, seconds=0.5)
    shell.do(stages("a", "b", version=5))
    shell.wait(1)
    shell.do(commits((0, 0, 2), version=5, told=told))
    shell.do(stages("c", app="boss", by=BOSS))
    mine = Record(2, APP, Jid("etl@x"), 5, after(0), after(1), 2, 12, told)
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
    """The counts that a batch gathers must not keep what a savepoint has undone."""
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
