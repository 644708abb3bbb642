"""Joins in both stores: what counts, in which commit, and what wakes a join once."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, EVE, JOBS, who
from harness.batches.queue_requests import a_queue, holds, publishes, retracts, signals, unlocks
from harness.batches.queue_requests import joins as subscribes
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.replay import reported, there
from harness.stores.store_contents import miscounted_joins, misweighed, recount

from pubqueue.model.decision import Done, Published, Refusal, Refused
from pubqueue.model.entities import Awaited, ItemId, Joined, NodeName, State
from pubqueue.model.joins import Join
from pubqueue.model.waits import AtDeadline, Woken
from pubqueue.rules.dead_letters import Cancel, Discard, Redrive
from pubqueue.rules.expire import Expire
from pubqueue.rules.joins import Close
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete, Purge
from pubqueue.rules.seek import Seek
from pubqueue.rules.settle import Outcome

DEAD, ENDS = NodeName("dead"), NodeName("ends")
REST = ItemId("rest")


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    made.do(a_queue(DEAD, event_log=1))
    made.do(a_queue(ENDS, event_log=1))
    made.do(a_queue(event_log=1, dead_letter_node=DEAD, max_failures=1, backoff_min=0))
    made.do(subscribes(ANN, 9))
    yield made
    for look in (recount, misweighed, miscounted_joins):
        assert made.look_within(look) == []
    assert made.look_within(reported) == made.look_within(there)
    made.close()


def stored(shell, name, node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


def members(*names, last=False, by=ETL, node=JOBS, **facts):
    return publishes(*names, joins=Joined(ENDS, REST, last), by=by, node=node, **facts)


def a_join(**facts):
    return publishes(REST, node=ENDS, hold=Awaited(is_join=True, **facts))


def close(by=ETL):
    return Close(who(by), ENDS, REST)


def state(shell):
    """Return the state of the join, how many members are to come, and how many of these are dead."""
    item = stored(shell, REST, ENDS)
    return item.state, item.wait.join.to_come, item.wait.join.dead


def test_the_last_of_its_members_wakes_it_in_the_commit_of_the_retract(shell):
    shell.do(subscribes(BOB, 9, node=ENDS))
    shell.do(a_join())
    shell.do(members("a", "b"))
    shell.do(members("c", last=True))
    assert state(shell) == (State.HELD, 3, 0)
    shell.do(retracts(ANN, "a", "b"))
    assert state(shell) == (State.HELD, 1, 0)
    (delivery,) = shell.batch(retracts(ANN, "c")).deliveries
    assert (delivery.item.id, delivery.item.holder) == (REST, BOB)
    assert delivery.item.wait.woken is Woken.COUNT
    assert delivery.item.wait.join == Join(0, 0, 3, is_open=False)


def test_while_it_is_open_it_does_not_wake(shell):
    shell.do(a_join())
    shell.do(members("a"))
    shell.do(retracts(ANN, "a"))
    assert state(shell) == (State.HELD, 0, 0)
    shell.do(members("b"))
    assert shell.do(close()) == Done()
    assert isinstance(shell.do(members("c")), Refused)
    assert state(shell) == (State.HELD, 1, 0)
    shell.do(retracts(ANN, "b"))
    assert state(shell) == (State.QUEUED, 0, 0)
    assert shell.do(close()) == Done()


def test_a_join_without_members_wakes_when_it_is_closed(shell):
    shell.do(a_join())
    shell.do(close())
    assert state(shell) == (State.QUEUED, 0, 0)


def test_a_join_that_is_closed_from_the_start_goes_to_a_worker(shell):
    shell.do(subscribes(BOB, 9, node=ENDS))
    (delivery,) = shell.batch(a_join(is_open=False)).deliveries
    assert delivery.item.wait.woken is Woken.COUNT


def test_members_and_the_end_of_them_in_one_batch(shell):
    shell.batch(a_join(), members("a", "b", last=True), retracts(ETL, "a"), retracts(ETL, "b"))
    assert state(shell) == (State.QUEUED, 0, 0)


def test_a_repeated_publish_counts_once(shell):
    shell.do(a_queue(dedup_window=100))
    shell.do(a_join())
    for _ in range(3):
        assert isinstance(shell.do(a_join()), Published)
        assert isinstance(shell.do(members("a", "b", last=True)), Published)
    assert state(shell) == (State.HELD, 2, 0)
    shell.do(retracts(ANN, "a"))
    assert isinstance(shell.do(members("a", "b", last=True)), Published)
    assert state(shell) == (State.HELD, 1, 0)
    shell.do(retracts(ANN, "b"))
    assert isinstance(shell.do(members("a", "b", last=True)), Published)
    assert state(shell) == (State.QUEUED, 0, 0)


def test_a_dead_member_is_waited_for_until_it_is_redriven_and_done(shell):
    shell.do(a_join())
    shell.do(members("a", last=True))
    shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED))
    assert stored(shell, "a", DEAD) is not None
    assert state(shell) == (State.HELD, 1, 1)
    shell.do(Redrive(who(BOSS), DEAD))
    assert state(shell) == (State.HELD, 1, 0)
    shell.do(retracts(ANN, "a"))
    assert state(shell) == (State.QUEUED, 0, 0)


@pytest.mark.parametrize("policy", ["count", "fail"])
def test_the_node_of_the_join_decides_otherwise(shell, policy):
    shell.do(a_queue(ENDS, event_log=1, join_dead=policy))
    shell.do(a_join())
    shell.do(members("a", "b", last=True))
    shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED))
    if policy == "count":
        assert state(shell) == (State.HELD, 2, 1)
        shell.do(retracts(ANN, "b"))
        assert state(shell) == (State.QUEUED, 1, 1)
    else:
        assert shell.look(lambda tx: tx.next_due()) == shell.now
        shell.do(Expire())
        join = stored(shell, REST, ENDS)
        assert (join.state, join.dead_letter.reason) == (
            State.DEAD,
            "an item that it waits for is dead",
        )
        shell.do(Redrive(who(BOSS), DEAD))
        shell.do(retracts(ANN, "a", "b"))
        assert state(shell) == (State.DEAD, 0, 0)


def test_another_setting_counts_once_the_join_is_looked_at(shell):
    shell.do(a_join())
    shell.do(members("a", last=True))
    shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED))
    shell.do(Configure(who(BOSS), ENDS, Settings({"join_dead": "count"})))
    shell.do(close())
    assert state(shell) == (State.QUEUED, 1, 1)


@pytest.mark.parametrize(
    "ends",
    [
        lambda shell: shell.do(retracts(ETL, "a")),
        lambda shell: shell.do(Cancel(who(BOSS), JOBS, (ItemId("a"),))),
        lambda shell: shell.do(Purge(who(BOSS), JOBS)),
        lambda shell: shell.do(Delete(who(BOSS), JOBS)),
        lambda shell: shell.wait(1) or shell.do(Seek(who(BOSS), JOBS, shell.now)),
        lambda shell: shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED)) and shell.do(retracts(BOSS, "a", node=DEAD)),
        lambda shell: shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED)) and shell.do(Purge(who(BOSS), DEAD)),
        lambda shell: shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED)) and shell.do(Discard(who(BOSS), DEAD)),
    ],
)  # fmt: skip
def test_whatever_ends_a_member_counts(shell, ends):
    shell.do(a_join())
    shell.do(members("a", last=True))
    ends(shell)
    shell.do(Expire())  # it sweeps what was purged
    assert state(shell) == (State.QUEUED, 0, 0)


def test_an_expired_member_counts_if_its_queue_drops_it(shell):
    shell.do(a_queue(event_log=1, expired="drop"))
    shell.do(a_join())
    shell.do(publishes("z"))
    shell.do(Configure(who(BOSS), JOBS, Settings({"paused": True})))
    shell.do(members("a", last=True, ttl=10))
    shell.wait(10)
    shell.do(Expire())
    assert state(shell) == (State.QUEUED, 0, 0)


def test_a_member_stays_one_with_another_payload_and_while_it_is_held(shell):
    shell.do(a_join())
    shell.do(Configure(who(BOSS), JOBS, Settings({"paused": True})))
    shell.do(members("a", last=True))
    shell.do(publishes("a", payload=b"<other/>"))
    shell.do(Configure(who(BOSS), JOBS, Settings({"paused": False})))
    shell.do(holds(ANN, "a", "go"))
    assert state(shell) == (State.HELD, 1, 0)
    shell.do(signals("a", "go"))
    shell.do(retracts(ANN, "a"))
    assert state(shell) == (State.QUEUED, 0, 0)


def test_a_done_member_that_a_seek_brings_back_has_counted(shell):
    shell.do(a_queue(event_log=1, keep_done=1, item_expire=1000))
    shell.do(a_join())
    shell.do(members("a", "b", last=True))
    begun = shell.now
    shell.do(retracts(ANN, "a"))
    shell.do(Seek(who(BOSS), JOBS, begun))
    assert stored(shell, "a").joins == 0
    assert state(shell) == (State.HELD, 1, 0)


def test_signals_and_its_time_wake_it_too_and_it_may_be_held_again(shell):
    shell.do(subscribes(BOB, 9, node=ENDS))
    shell.do(a_join(signals=("hurry",), within=60_000))
    shell.do(members("a", "b", last=True))
    shell.do(signals(REST, "hurry", node=ENDS))
    assert stored(shell, REST, ENDS).wait.woken is Woken.SIGNAL
    shell.do(retracts(ANN, "a"))
    assert state(shell) == (State.LOCKED, 1, 0)
    shell.do(holds(BOB, REST, node=ENDS, within=60))
    assert state(shell) == (State.HELD, 1, 0)
    shell.do(retracts(ANN, "b"))
    item = stored(shell, REST, ENDS)
    assert (item.wait.woken, item.due) == (Woken.COUNT, None)
    shell.do(holds(BOB, REST, node=ENDS, within=60))
    assert stored(shell, REST, ENDS).wait.join is None  # that count is over


def test_members_that_end_while_a_worker_has_the_join_wake_its_next_hold(shell):
    shell.do(subscribes(BOB, 9, node=ENDS))
    shell.do(a_join(signals=("hurry",)))
    shell.do(members("a", last=True))
    shell.do(signals(REST, "hurry", node=ENDS))
    shell.do(retracts(ANN, "a"))
    (delivery,) = shell.batch(holds(BOB, REST, "other", node=ENDS)).deliveries
    assert delivery.item.wait.woken is Woken.COUNT


def test_what_is_not_done_in_time(shell):
    shell.do(a_join(within=60_000, then=AtDeadline.DEAD))
    shell.do(members("a", last=True))
    shell.wait(60)
    shell.do(Expire())
    join = stored(shell, REST, ENDS)
    assert join.dead_letter.reason == "not all that it waits for was done in time"


def test_a_member_of_a_join_that_is_gone_ends_as_any_other(shell):
    shell.do(a_join())
    shell.do(members("a", last=True))
    shell.do(retracts(ETL, REST, node=ENDS))
    shell.do(a_join())  # another one, under its id
    assert shell.do(retracts(ANN, "a")) == Done()
    assert state(shell) == (State.HELD, 0, 0)


def test_two_instances_end_the_last_two_members(shell, request, tmp_path):
    place = (
        request.getfixturevalue("postgres").address
        if "Postgres" in type(shell).__name__
        else tmp_path / "queue.db"
    )
    other = type(shell)(place)
    try:
        shell.do(a_join())
        other.do(members("a", "b"))
        shell.do(members("c", last=True))
        for one, name in ((other, "a"), (shell, "b")):
            assert refusal(one.do(retracts(ETL, name))) is None
        assert state(other) == state(shell) == (State.HELD, 1, 0)
        other.do(retracts(ETL, "c"))
        assert state(shell) == (State.QUEUED, 0, 0)
        assert shell.do(signals(REST, "late", node=ENDS)).wakes is False
    finally:
        other.close()


def refusal(reply):
    return reply.refusal if isinstance(reply, Refused) else None


def test_who_may_not_signal_a_join_learns_nothing_of_it(shell):
    shell.do(a_queue(publish_model="open"))
    answers = [refusal(shell.do(members("a", by=EVE)))]
    shell.do(a_join())
    answers.append(refusal(shell.do(members("a", by=EVE))))
    shell.do(close())
    answers += [refusal(shell.do(members("a", by=EVE))), refusal(shell.do(close(by=EVE)))]
    assert set(answers) == {Refusal.FORBIDDEN}
    assert stored(shell, "a") is None


def test_what_cannot_be_a_member_is_refused_and_nothing_is_published(shell):
    assert refusal(shell.do(members("a"))) is Refusal.ITEM_NOT_FOUND
    shell.do(publishes(REST, node=ENDS))
    assert refusal(shell.do(members("a"))) is Refusal.PRECONDITION_NOT_MET
    assert refusal(shell.do(close())) is Refusal.PRECONDITION_NOT_MET
    shell.do(retracts(ETL, REST, node=ENDS))
    assert refusal(shell.do(close())) is Refusal.ITEM_NOT_FOUND
    shell.do(a_join())
    shell.do(publishes("b"))
    assert refusal(shell.do(members("a", "b"))) is Refusal.ITEM_EXISTS
    assert stored(shell, "a") is None
    assert state(shell) == (State.HELD, 0, 0)


def test_a_plain_node_has_neither_joins_nor_members(shell):
    shell.do(a_queue(NodeName("news"), queueing=False))
    for one in (a_join(), members("a")):
        asked = publishes(
            "a", node=NodeName("news"), hold=one.drafts[0].hold, joins=one.drafts[0].joins
        )
        assert refusal(shell.do(asked)) is Refusal.BAD_REQUEST


def test_a_join_may_be_a_member_itself(shell):
    shell.do(a_join())
    inner = publishes("half", hold=Awaited(is_join=True), joins=Joined(ENDS, REST, last=True))
    shell.do(inner)
    shell.do(publishes("a", joins=Joined(JOBS, ItemId("half"), last=True)))
    shell.do(retracts(ANN, "a"))
    assert stored(shell, "half").state is State.LOCKED
    assert state(shell) == (State.HELD, 1, 0)
    shell.do(retracts(ANN, "half"))
    assert state(shell) == (State.QUEUED, 0, 0)
