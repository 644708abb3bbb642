"""Groups, in batches on a store: when each item is delivered, whatever happens to earlier ones."""

from contextlib import closing

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell

from pubqueue.engine.facts import transactions
from pubqueue.model.decision import Published, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.model.notices import Deliver
from pubqueue.model.transactions import Mark
from pubqueue.rules import trimming
from pubqueue.rules.commit import CommitVersion, Part
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.settle import Outcome
from pubqueue.rules.staging import StagePublish

DEAD, NEWS = map(NodeName, ("jobs-dead", "news"))


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.batch(a_queue(DEAD))
    shell.batch(a_queue(dead_letter_node=DEAD, max_failures=2, backoff_min=5, backoff_max=5))
    yield shell
    shell.close()


def handed(shell, *requests):
    """Run the requests in one batch; return the ids of its deliveries, in order."""
    done = shell.batch(*requests)
    assert not any(isinstance(decision.reply, Refused) for decision in done.decisions)
    return "".join(one.item.id for one in done.deliveries if isinstance(one, Deliver))


def group(shell, name, *items, **facts):
    return handed(shell, publishes(*items, group=name, **facts))


def fails(name, **said):
    return unlocks(ANN, name, outcome=Outcome.FAILED, **said)


def limits(count):
    return Configure(who(BOSS), JOBS, Settings({"group_limit": count}))


def stored(shell, name, node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


def test_only_one_item_of_a_group_is_locked_and_the_next_follows_its_end(shell):
    shell.batch(joins(ANN, 9))
    assert group(shell, "g", *"abc") == "a"
    assert handed(shell, publishes("x")) == "x"
    assert handed(shell, retracts(ANN, "a")) == "b"
    assert handed(shell, retracts(ANN, "x"), retracts(ANN, "b")) == "c"


def test_a_batch_that_publishes_and_hands_out_keeps_to_it(shell):
    shell.batch(joins(ANN, 9))
    both = publishes("a", group="g"), publishes("b", group="g"), publishes("c", group="h")
    assert handed(shell, *both, publishes("x")) == "acx"
    assert handed(shell, retracts(ANN, "a"), publishes("d", group="g")) == "b"


def test_a_new_item_keeps_its_place_whatever_its_batch_writes_before_its_end(
    shell,
):
    keeps = Settings({"publish_model": "open", "max_items": 2, "persist_items": True})
    shell.batch(Declare(who(BOSS, admin=True), NEWS, keeps, (Jid("boss@x"),)))
    shell.batch(publishes("n1", "n2", node=NEWS))
    reads_the_store = publishes("n3", node=NEWS)  # what leaves for it
    shell.batch(publishes("a", group="g"), reads_the_store, publishes("x"))
    assert handed(shell, joins(ANN, 2)) == "ax"


def test_what_has_waited_goes_before_what_its_batch_publishes(shell):
    shell.batch(limits(2), joins(ANN, 9))
    assert group(shell, "g", *"abc") == "ab"
    assert handed(shell, publishes("d", group="g"), retracts(ANN, "a"), retracts(ANN, "b")) == "cd"


def test_as_many_as_the_node_allows_are_in_flight_in_the_order_of_publish(shell):
    shell.batch(limits(2), joins(ANN, 9))
    assert group(shell, "g", *"abcd") == "ab"
    assert handed(shell, retracts(ANN, "b")) == "c"
    assert handed(shell, retracts(ANN, "a"), retracts(ANN, "c")) == "d"


def test_groups_take_turns_and_a_long_one_delays_no_other(shell):
    group(shell, "long", *(f"l{n}" for n in range(50)))
    group(shell, "short", "s0", "s1")
    handed(shell, publishes("x"), publishes("y"))
    order = [handed(shell, joins(ANN, 1))]
    for _ in range(6):
        order.append(handed(shell, retracts(ANN, order[-1])))
    assert order == ["l0", "s0", "x", "y", "l1", "s1", "l2"]


def test_a_priority_moves_a_turn_ahead_of_other_groups_and_changes_nothing_within_the_group(shell):
    group(shell, "g", "a")
    group(shell, "g", "b", priority=9)
    group(shell, "g", "c", priority=-1)
    handed(shell, publishes("x"), publishes("y"))
    order = [handed(shell, joins(ANN, 1))]
    for _ in range(4):
        order.append(handed(shell, retracts(ANN, order[-1])))
    assert order == ["a", "b", "x", "y", "c"]


def test_a_released_or_failed_item_keeps_its_turn_and_its_group_waits(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"ab")
    assert handed(shell, fails("a")) == ""  # the lone subscriber gets it again after a pause
    assert stored(shell, "a").turn
    shell.wait(6)
    assert handed(shell, Expire()) == "a"
    assert handed(shell, unlocks(ANN, "a", delay=3000)) == ""
    shell.wait(2)
    assert handed(shell, Expire()) == ""
    shell.wait(2)
    assert handed(shell, Expire()) == "a"
    assert handed(shell, retracts(ANN, "a")) == "b"


def test_with_a_limit_of_two_the_other_goes_on(shell):
    shell.batch(limits(2), joins(ANN, 9))
    group(shell, "g", *"abc")
    assert handed(shell, fails("a")) == ""
    assert handed(shell, retracts(ANN, "b")) == "c"


def test_the_higher_priority_of_several_turns_of_a_group_is_delivered_first(shell):
    shell.batch(limits(2))
    group(shell, "g", "a")
    group(shell, "g", "b", priority=9)
    group(shell, "g", "c", priority=99)
    order = [handed(shell, joins(ANN, 1))]
    for _ in range(2):
        order.append(handed(shell, retracts(ANN, order[-1])))
    assert order == ["b", "c", "a"]


def test_the_dead_lets_its_group_go_on_and_takes_the_group_along(shell):
    shell.batch(joins(ANN, 9), joins(BOB, 9, node=DEAD))
    group(shell, "g", *"abc")
    assert sorted(handed(shell, unlocks(ANN, "a", outcome=Outcome.REJECT))) == ["a", "b"]
    assert (stored(shell, "a", DEAD).group, stored(shell, "a", DEAD).holder) == ("g", BOB)
    # and in the dead-letter queue, too, one of the group is in work
    assert handed(shell, unlocks(ANN, "b", outcome=Outcome.REJECT)) == "c"
    assert handed(shell, retracts(BOB, "a", node=DEAD)) == "b"


def test_the_redriven_is_first_in_line_again(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"abc")
    assert handed(shell, unlocks(ANN, "a", outcome=Outcome.REJECT)) == "b"
    assert handed(shell, Redrive(who(BOSS), DEAD)) == ""
    assert handed(shell, retracts(ANN, "b")) == "a"
    assert handed(shell, retracts(ANN, "a")) == "c"


def test_a_delayed_item_joins_its_group_when_it_is_due_and_blocks_no_other(shell):
    shell.batch(joins(ANN, 9))
    assert group(shell, "g", "a", delay=10) == ""
    assert group(shell, "g", "b") == "b"
    group(shell, "g", "c")
    shell.wait(11)
    assert handed(shell, Expire()) == ""
    assert handed(shell, retracts(ANN, "b")) == "a"


def test_a_life_that_ends_in_its_turn_or_in_line(shell):
    group(shell, "g", "a", "b", ttl=5)
    group(shell, "g", "c")
    shell.wait(6)
    assert handed(shell, Expire()) == ""
    assert handed(shell, joins(ANN, 9)) == "c"
    assert [stored(shell, name, DEAD).group for name in "ab"] == ["g", "g"]


def test_withdrawn_items_of_a_group_let_the_next_come(shell):
    group(shell, "g", *"abcd")
    handed(shell, retracts(BOSS, "a"), retracts(BOSS, "c"))
    assert handed(shell, joins(ANN, 9)) == "b"
    assert handed(shell, retracts(ANN, "b")) == "d"


def test_after_a_purge_the_group_begins_again(shell):
    group(shell, "g", *"ab")
    assert handed(shell, Purge(who(BOSS), JOBS), publishes("c", group="g")) == ""
    assert handed(shell, joins(ANN, 9)) == "c"


def test_another_payload_keeps_group_and_place(shell):
    group(shell, "g", *"abc")
    handed(shell, publishes("b", payload=b"<other/>", group="h"))
    assert stored(shell, "b").group == "g"
    assert handed(shell, joins(ANN, 9)) == "a"


def test_pausing_hands_out_nothing_and_loses_no_turn(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"ab")
    pause = Configure(who(BOSS), JOBS, Settings({"paused": True}))
    assert handed(shell, pause, retracts(ANN, "a")) == ""
    assert stored(shell, "b").turn
    assert handed(shell, Configure(who(BOSS), JOBS, Settings({"paused": False}))) == "b"


def test_a_higher_limit_lets_more_turns_come_slice_by_slice(shell, monkeypatch):
    monkeypatch.setattr(trimming, "TURNS", 6)
    shell.batch(joins(ANN, 99))
    for name in "ghijk":
        group(shell, name, *(f"{name}{n}" for n in range(5)))
    begun = shell.batch(limits(3))
    gone, then = names(begun), begun.decisions[0].then
    batches = 1
    while then is not None:
        done = shell.batch(then)
        assert len(done.deliveries) <= 6
        gone, then, batches = gone + names(done), done.decisions[0].then, batches + 1
    assert sorted(gone) == [f"{name}{n}" for name in "ghijk" for n in (1, 2)]
    assert batches > 3


def test_raising_a_limit_continues_after_a_kill(shell, tmp_path):
    for name in "ghi":
        group(shell, name, *(f"{name}{n}" for n in range(3)))
    shell.batch(limits(2))  # and here it ends
    shell.close()
    with closing(Shell(tmp_path / "queue.db")) as other:
        other.batch(joins(ANN, 99))
        other.do(trimming.ResumeTrims())
        assert sum(stored(other, f"{name}1").turn > 0 for name in "ghi") == 3
        assert other.connection.execute("SELECT count(*) FROM trim").fetchone() == (0,)


def test_a_lower_limit_takes_no_turn_away_and_waits_for_those_to_end(shell):
    shell.batch(limits(3), joins(ANN, 9))
    assert group(shell, "g", *"abcde") == "abc"
    shell.batch(limits(1))
    assert handed(shell, retracts(ANN, "a")) == ""
    assert handed(shell, retracts(ANN, "b")) == ""
    assert handed(shell, retracts(ANN, "c")) == "d"


@pytest.mark.parametrize("most", [2000, 1])
def test_committed_items_keep_the_order_of_staging_in_their_group(shell, monkeypatch, most):
    """With work that fits into one batch, and with more."""
    monkeypatch.setattr(transactions, "MAX_WINNERS", most)
    shell.batch(joins(ANN, 9))
    group(shell, "g", "a")
    for request in (
        publishes("b", group="g"),
        publishes("c"),
        publishes("d", group="g"),
        publishes("e", group="h"),
    ):
        shell.batch(StagePublish(request, Mark("app", 1)))
    reply = shell.do(CommitVersion(who(ETL), "app", 1, (Part(0, 0, 4),)))
    assert reply.published == 4
    locked = [name for name in "abcde" if stored(shell, name).state is State.LOCKED]
    assert locked == ["a", "c", "e"]
    assert handed(shell, retracts(ANN, "a")) == "b"
    assert handed(shell, retracts(ANN, "b")) == "d"


def test_an_immediate_transaction_takes_its_turns_at_once(shell):
    shell.batch(joins(ANN, 9))
    stage = StagePublish(publishes(*"ab", group="g"), Mark("app", 1, immediate=True))
    assert handed(shell, stage) == "a"
    assert shell.do(CommitVersion(who(ETL), "app", 1, (Part(0, 0, 2),))).published == 2
    assert handed(shell, retracts(ANN, "a")) == "b"


def test_two_processes_keep_to_one_limit(shell, tmp_path):
    other = Shell(tmp_path / "queue.db")
    try:
        shell.batch(joins(ANN, 9))
        other.batch(joins(BOB, 9))
        assert group(shell, "g", "a") == "a"
        assert group(other, "g", "b") == ""
        assert group(shell, "g", "c") == ""
        holder = stored(shell, "a").holder
        assert handed(other, retracts(holder, "a")) == "b"
        assert handed(shell, retracts(stored(shell, "b").holder, "b")) == "c"
    finally:
        other.close()


@pytest.mark.parametrize("name", ["x" * 256, "ä" * 128, "a\nb"])
def test_a_group_has_a_name(shell, name):
    (decision,) = shell.batch(publishes("a", group=name)).decisions
    assert decision.reply.refusal is Refusal.BAD_REQUEST
    assert decision.reply.setting == "group"


def test_in_a_plain_node_there_are_no_groups(shell):
    plain = a_queue(NodeName("news"), queueing=0)
    done = shell.batch(plain, publishes("a", node=NodeName("news"), group="g"))
    assert done.decisions[1].reply.refusal is Refusal.BAD_REQUEST


def test_the_longest_name_is_taken(shell):
    (decision,) = shell.batch(publishes("a", group="x" * 255)).decisions
    assert isinstance(decision.reply, Published)


def test_a_long_group_costs_a_batch_no_more_than_a_short_one(shell):
    """The cost of one turn is counted in steps of SQLite, before and after thousands of items are in the group."""
    shell.batch(joins(ANN, 1))
    group(shell, "g", *(f"a{n}" for n in range(30)))
    few = [_steps(shell, f"a{n}") for n in range(5, 10)]
    for part in range(10):
        group(shell, "g", *(f"b{part}.{n}" for n in range(500)))
    many = [_steps(shell, f"a{n}") for n in range(10, 15)]
    assert min(many) <= min(few) + 300


def _steps(shell, name):
    """Do the items before this one; return the steps of this one."""
    while stored(shell, name).holder is None:
        ((before,), _) = shell.look(lambda tx: tx.held_by(ANN))
        shell.batch(retracts(ANN, before.id))
    steps = []
    shell.connection.set_progress_handler(lambda: steps.append(1), 1)
    shell.batch(retracts(ANN, name))
    shell.connection.set_progress_handler(None, 0)
    return len(steps)


def names(done):
    return [one.item.id for one in done.deliveries]
