"""Groups that are sent ahead, in batches on a store: several in flight, in order, and what comes back brings the later ones back."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell

from pubqueue.model.decision import Refused
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.model.notices import Deliver, Unlocked
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.presence import Departure, FreeConnections, Leave
from pubqueue.rules.settle import Outcome
from pubqueue.rules.take import Take

DEAD = NodeName("jobs-dead")
LIMIT = 5


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.batch(a_queue(DEAD))
    shell.batch(
        a_queue(
            dead_letter_node=DEAD,
            max_failures=2,
            backoff_min=5,
            backoff_max=5,
            backoff_jitter=0,
            group_limit=LIMIT,
            group_ahead=True,
        )
    )
    yield shell
    shell.close()


def handed(shell, *requests):
    """Run the requests in one batch; return the ids of its deliveries, in order."""
    done = shell.batch(*requests)
    assert not any(isinstance(decision.reply, Refused) for decision in done.decisions)
    return "".join(one.item.id for one in done.deliveries if isinstance(one, Deliver))


def group(shell, name, *items, **facts):
    return handed(shell, publishes(*items, group=name, **facts))


def fails(name, by=ANN, **said):
    return unlocks(by, name, outcome=Outcome.FAILED, **said)


def stored(shell, name, node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


def test_the_items_of_a_group_are_sent_before_the_first_is_done_up_to_the_limit(shell):
    shell.batch(joins(ANN, 9))
    assert group(shell, "g", *"abcdefg") == "abcde"
    assert group(shell, "g", "h") == ""
    assert handed(shell, retracts(ANN, "c")) == "f"
    assert handed(shell, retracts(ANN, "a", "b")) == "gh"


def test_items_published_later_follow_to_the_same_holder(shell):
    shell.batch(joins(ANN, 9), joins(BOB, 9))
    order = [group(shell, "g", name) for name in "abc"]
    assert order == ["a", "b", "c"]
    assert len({stored(shell, name).holder for name in "abc"}) == 1


def test_the_first_items_of_a_group_keep_their_places_among_those_of_their_batch(shell):
    shell.batch(publishes("a", group="g"), publishes("x"), publishes("b", group="g"))
    assert handed(shell, joins(ANN, 9)) == "axb"


def test_what_has_waited_goes_before_what_its_batch_publishes_also_when_it_comes_back(shell):
    shell.batch(joins(ANN, 1))
    assert group(shell, "g", *"ab") == "a"
    more = publishes("c", group="g"), joins(ANN, 9)
    assert handed(shell, *more, retracts(ANN, "a")) == "bc"
    shell.batch(fails("b"))
    assert stored(shell, "c").holder is None


def test_another_group_may_have_another_holder(shell):
    shell.batch(joins(ANN, 9), joins(BOB, 9))
    group(shell, "g", *"ab")
    group(shell, "h", *"cd")
    holders = [stored(shell, name).holder for name in "abcd"]
    assert holders[0] == holders[1] != holders[2] == holders[3]


def test_one_that_fails_brings_back_all_that_was_sent_after_it(shell):
    shell.batch(joins(ANN, 9))
    assert group(shell, "g", *"abcdef") == "abcde"
    done = shell.batch(fails("c"))
    (told,) = done.deliveries
    assert (told.to, told.ids) == (ANN, ("d", "e"))
    assert isinstance(told, Unlocked)
    assert [stored(shell, name).failed for name in "abcde"] == [0, 0, 1, 0, 0]
    assert [stored(shell, name).state for name in "ab"] == [State.LOCKED] * 2
    shell.wait(6)
    assert handed(shell, Expire()) == "cde"
    assert handed(shell, retracts(ANN, *"abcde")) == "f"


def test_what_is_done_already_does_not_come_back(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"abcde")
    handed(shell, retracts(ANN, "d"))
    handed(shell, fails("b"))
    shell.wait(6)
    assert handed(shell, Expire()) == "bce"


def test_a_released_one_comes_again_at_once_to_another_and_the_later_ones_with_it(shell):
    shell.batch(joins(ANN, 9))
    assert group(shell, "g", *"abc") == "abc"
    shell.batch(joins(BOB, 9))
    assert handed(shell, unlocks(ANN, "a")) == "abc"
    assert {stored(shell, name).holder for name in "abc"} == {BOB}


def test_while_an_earlier_one_is_in_flight_a_failed_one_goes_to_its_holder_again(shell):
    shell.batch(joins(ANN, 9))
    assert group(shell, "g", *"abc") == "abc"
    shell.batch(joins(BOB, 9))
    assert handed(shell, fails("b")) == ""
    shell.wait(6)
    assert handed(shell, Expire()) == "bc"
    assert {stored(shell, name).holder for name in "abc"} == {ANN}


def test_of_locks_that_expire_together_only_the_first_counts_a_failure(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"abc")
    shell.wait(301)
    assert handed(shell, Expire()) == ""
    assert [stored(shell, name).failed for name in "abc"] == [1, 0, 0]
    shell.wait(6)
    assert handed(shell, Expire()) == "abc"


def test_when_the_holder_goes_all_come_back_in_order(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"abc")
    shell.batch(joins(BOB, 9))
    assert handed(shell, Leave(ANN, how=Departure.LOST)) == "abc"
    assert [stored(shell, name).failed for name in "abc"] == [1, 0, 0]
    assert {stored(shell, name).holder for name in "abc"} == {BOB}


def test_when_its_instance_died_all_come_back_in_order_and_only_the_first_was_an_attempt(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"abc")
    shell.batch(joins(BOB, 9))
    assert handed(shell, FreeConnections((ANN,))) == "abc"
    assert [stored(shell, name).released for name in "abc"] == [1, 0, 0]
    assert {stored(shell, name).holder for name in "abc"} == {BOB}


def test_one_that_dies_lets_its_group_go_on_and_recalls_nothing(shell):
    shell.batch(joins(ANN, 9))
    assert group(shell, "g", *"abcdef") == "abcde"
    assert handed(shell, unlocks(ANN, "a", outcome=Outcome.REJECT)) == "f"
    assert stored(shell, "a", DEAD).group == "g"
    assert {stored(shell, name).state for name in "bcdef"} == {State.LOCKED}


def test_a_holder_without_room_gets_more_when_it_has_room_again_and_nobody_else_does(shell):
    shell.batch(joins(ANN, 2))
    assert group(shell, "g", *"abcd") == "ab"
    shell.batch(joins(BOB, 9))
    assert handed(shell, publishes("x")) == "x"
    assert stored(shell, "x").holder == BOB
    assert handed(shell, retracts(ANN, "a")) == "c"
    assert stored(shell, "c").holder == ANN


def test_a_group_goes_on_when_its_holder_has_room_from_another_group(shell):
    shell.batch(joins(ANN, 2))
    group(shell, "g", "a")
    group(shell, "h", "x")
    assert group(shell, "g", *"bc") == ""
    assert handed(shell, retracts(ANN, "x")) == "b"


def test_groups_whose_holder_is_full_are_not_in_the_way_of_others(shell):
    shell.batch(joins(ANN, 3))
    assert group(shell, "g", *"abcdefgh") == "abc"
    assert group(shell, "h", *"ij") == ""
    shell.batch(joins(BOB, 1))
    assert stored(shell, "i").holder == BOB
    assert handed(shell, retracts(BOB, "i")) == "j"


def test_a_late_joiner_gets_nothing_of_what_is_under_way(shell):
    shell.batch(joins(ANN, 2))
    group(shell, "g", *"abc")
    assert handed(shell, joins(BOB, 9)) == ""


def test_while_one_waits_for_its_next_attempt_nothing_of_its_group_goes_ahead(shell):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"ab")
    handed(shell, unlocks(ANN, "a", delay=3000))
    assert group(shell, "g", "c") == ""
    assert handed(shell, joins(BOB, 9)) == ""
    shell.wait(4)
    assert handed(shell, Expire()) == "abc"


def test_a_priority_does_not_change_the_order_within_the_group(shell):
    shell.batch(joins(ANN, 9), Configure(who(BOSS), JOBS, Settings({"paused": True})))
    for name, priority in zip("abcd", (0, 9, 9, -1), strict=True):
        group(shell, "g", name, priority=priority)
    assert handed(shell, Configure(who(BOSS), JOBS, Settings({"paused": False}))) == "abcd"


def test_after_a_restart_the_order_holds(shell, tmp_path):
    shell.batch(joins(ANN, 9))
    group(shell, "g", *"abcdefg")
    shell.close()
    again = Shell(tmp_path / "queue.db")
    again.now = shell.now
    assert handed(again, fails("b")) == ""
    assert handed(again, retracts(ANN, "a")) == ""
    again.wait(6)
    assert handed(again, Expire()) == "bcdef"
    assert handed(again, retracts(ANN, "b")) == "g"
    again.close()


def test_a_batch_that_is_rolled_back_forgets_no_group_that_waits_for_room(shell):
    shell.batch(joins(ANN, 2))
    group(shell, "g", "a")
    group(shell, "h", "x")
    group(shell, "g", *"bc")
    store = shell.transact

    def fails_at_last(job):
        def and_fails(tx):
            job(tx)
            raise OSError

        return store(and_fails)

    shell.transact = fails_at_last
    with pytest.raises(OSError):  # noqa: PT011  # the batch's own
        shell.batch(retracts(ANN, "x"))
    shell.transact = store
    assert handed(shell, retracts(ANN, "x")) == "b"


def test_the_setting_can_change_while_items_are_in_flight(shell):
    off = Configure(who(BOSS), JOBS, Settings({"group_ahead": False, "group_limit": 2}))
    on = Configure(who(BOSS), JOBS, Settings({"group_ahead": True, "group_limit": 5}))
    shell.do(off)
    shell.batch(joins(ANN, 1), joins(BOB, 1))
    assert group(shell, "g", *"abcd") == "ab"
    shell.do(on)
    assert (
        handed(shell, retracts(stored(shell, "a").holder, "a")) == ""
    )  # another one would hold it
    assert handed(shell, retracts(stored(shell, "b").holder, "b")) in {"c", "cd"}


def taken(shell, number, count, *, ahead, by=BOB):
    """Return the ids of what a take gets, at once or later."""
    shell.takers.add(number)
    take = Take(who(by), JOBS, count, number=number, ahead=ahead, wait=1000)
    return got(shell.batch(take), number)


def got(done, number):
    return "".join(one.item.id for one in done.taken.get(number, ()))


def test_a_take_that_does_not_ask_for_it_gets_one_of_a_group_at_a_time(shell):
    group(shell, "g", *"abc")
    group(shell, "h", *"xy")
    assert taken(shell, 1, 9, ahead=False) == "ax"
    assert taken(shell, 2, 9, ahead=False) == ""
    assert got(shell.batch(retracts(BOB, "a")), 2) == "b"


def test_a_take_that_asks_for_it_gets_as_many_as_it_has_room_for(shell):
    group(shell, "g", *"abcdefg")
    assert taken(shell, 1, 3, ahead=True) == "abc"
    assert taken(shell, 2, 9, ahead=True) == "de"
    assert taken(shell, 3, 9, ahead=True, by=ANN) == ""
    assert got(shell.batch(retracts(BOB, *"abcde")), 3) == "fg"
