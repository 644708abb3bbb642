"""Fair shares of groups, in batches on a store: one group with a great deal to do does not delay the others."""

from collections import Counter
from statistics import median

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, who
from harness.batches.queue_requests import (
    a_queue,
    joins,
    publishes,
    publishes_all,
    retracts,
    unlocks,
)
from harness.batches.shell import Shell

from pubqueue.engine import shares
from pubqueue.engine.batch import UndeliverableError
from pubqueue.model.entities import ItemId
from pubqueue.model.notices import Deliver
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.settle import Outcome
from pubqueue.rules.take import Take

OTHERS = dict.fromkeys(f"c{n}" for n in range(999))
STATEMENTS = 16
"""Of a batch that ends an item and delivers another one."""


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    yield shell
    shell.close()


def names(done):
    return [one.item.id for one in done.deliveries if isinstance(one, Deliver)]


def handed(shell, *requests):
    """Run the requests, then batches until nothing is left; return the ids of the deliveries, in order."""
    done = shell.batch(*requests)
    said = names(done)
    while done.rest:
        done = shell.batch(rest=done.rest)
        said += names(done)
    return said


def words(found):
    return "".join(found)


def sets(**settings):
    return Configure(who(BOSS), JOBS, Settings(settings))


# --- what it is for


def median_wait(path, backlog, **settings):
    """Return the median of how long the items of 999 groups wait for one of 20 places, each held for a second.

    Another group came before them, with a backlog.
    """
    shell = Shell(path)
    shell.batch(a_queue(group_limit=1000, **settings), joins(ANN, 20))
    begun = {}
    held = handed(shell, *publishes_all([f"noisy{n}" for n in range(backlog)], group="noisy"))
    come = shell.now
    held += handed(shell, *(publishes(name, group=name) for name in OTHERS))
    while begun.keys() < OTHERS.keys():
        begun |= dict.fromkeys((name for name in held if name in OTHERS), shell.now)
        shell.wait(1)
        held = handed(shell, retracts(ANN, *held))
    shell.close()
    return median(begun.values()) - come


def test_of_1000_groups_a_noisy_one_does_not_delay_the_others(tmp_path):
    quiet = median_wait(tmp_path / "quiet.db", 0, fair="group")
    noisy = median_wait(tmp_path / "noisy.db", 3000, fair="group")
    as_they_came = median_wait(tmp_path / "off.db", 3000, fair="off")
    assert noisy <= 1.5 * quiet
    assert as_they_came > 1.5 * quiet


# --- the order


@pytest.fixture
def fair(shell):
    shell.batch(a_queue(fair="group", group_limit=9, max_failures=9, backoff_min=5, backoff_max=5))
    return shell


def publish(shell, **groups):
    """Publish items, by group; `_` is no group."""
    asked = [publishes(*ids, group=group.strip("_")) for group, ids in groups.items()]
    return handed(shell, *asked)


def test_the_next_item_is_of_the_group_that_has_used_the_least(fair):
    publish(fair, g="abcde", h="vwx")
    assert words(handed(fair, joins(ANN, 2))) == "av"
    fair.wait(10)
    assert words(handed(fair, retracts(ANN, "v"))) == "w"  # `a` is held, and will be for longer
    fair.wait(1)
    assert words(handed(fair, retracts(ANN, "w"))) == "x"
    assert words(handed(fair, retracts(ANN, "x"))) == "b"


def test_groups_alternate_when_items_take_no_time(fair):
    publish(fair, g="abc", h="xyz")
    order = handed(fair, joins(ANN, 1))
    for _ in range(5):
        order += handed(fair, retracts(ANN, order[-1]))
    assert words(order) == "axbycz"


def test_a_group_with_a_weight_has_as_many_shares(fair):
    fair.batch(sets(weights="g=3"))
    publish(fair, g=[f"g{n}" for n in range(9)], h=[f"h{n}" for n in range(9)])
    order = handed(fair, joins(ANN, 1))
    for _ in range(7):
        order += handed(fair, retracts(ANN, order[-1]))
    assert Counter(name[0] for name in order) == {"g": 6, "h": 2}


def test_a_change_of_weights_counts_at_once(fair):
    publish(fair, g="abcdef", h="uvwxyz")
    order = handed(fair, joins(ANN, 1))
    for _ in range(3):
        order += handed(fair, retracts(ANN, order[-1]))
    fair.batch(sets(weights="h=9"))
    for _ in range(3):
        order += handed(fair, retracts(ANN, order[-1]))
    assert words(order)[:4] == "aubv"
    assert set(order[4:]) == set("wxy")


def test_items_without_a_group_are_one_group_and_not_limited(fair):
    publish(fair, _="0123456789", g="abc")
    assert words(handed(fair, joins(ANN, 4))) in {"0a1b", "a0b1"}
    fair.batch(sets(weights="=9"))
    assert words(handed(fair, retracts(ANN, "a"), retracts(ANN, "b"))) == "23"


def test_a_new_group_is_served_at_once_and_has_no_more_than_its_share_afterwards(fair):
    publish(fair, g="abcdefgh")
    order = handed(fair, joins(ANN, 1))
    for _ in range(3):
        fair.wait(10)
        order += handed(fair, retracts(ANN, order[-1]))
    assert words(order) == "abcd"
    publish(fair, h="vwxyz")
    for _ in range(5):
        fair.wait(10)
        order += handed(fair, retracts(ANN, order[-1]))
    assert Counter(order[4:]) >= Counter("vw")
    assert len(set(order[4:]) & set("efgh")) >= 2


def test_a_priority_goes_first_within_its_group_and_not_before_others(fair):
    handed(fair, publishes("a", group="g"), publishes("x", group="h"))
    handed(fair, publishes("b", group="g", priority=9), publishes("c", group="g", priority=9))
    order = handed(fair, joins(ANN, 1))
    for _ in range(3):
        order += handed(fair, retracts(ANN, order[-1]))
    assert words(order) == "bxca"


def test_the_limit_of_a_group_and_its_order_hold(shell):
    shell.batch(a_queue(fair="group", group_limit=1))
    publish(shell, g="abc", h="x")
    assert words(handed(shell, joins(ANN, 9))) == "ax"
    assert handed(shell, retracts(ANN, "x")) == []
    assert words(handed(shell, retracts(ANN, "a"))) == "b"


def test_groups_that_are_sent_ahead_stay_with_their_holders_in_order(shell):
    shell.batch(a_queue(fair="group", group_limit=9, group_ahead=True))
    publish(shell, g="abcd", h="xyz")
    said = handed(shell, joins(ANN, 3), joins(BOB, 3))
    holders = {
        name: shell.look(lambda tx, name=name: tx.item(JOBS, ItemId(name))).holder for name in said
    }
    assert sorted(said) == list("abcxyz")
    assert {holders[name] for name in "abc"} != {holders[name] for name in "xyz"}
    assert len(set(holders.values())) == 2
    for ordered in ("abc", "xyz"):
        assert [name for name in said if name in ordered] == list(ordered)


def test_what_was_released_goes_to_another_worker_and_delays_no_group(fair):
    publish(fair, g="a", h="xy")
    assert words(handed(fair, joins(ANN, 1))) == "a"
    assert words(handed(fair, unlocks(ANN, "a"))) == "x"
    assert words(handed(fair, joins(BOB, 1))) == "a"


def test_an_item_that_pauses_comes_again(fair):
    publish(fair, g="a")
    handed(fair, joins(ANN, 1))
    handed(fair, unlocks(ANN, "a", outcome=Outcome.FAILED))
    fair.wait(6)
    assert words(handed(fair, Expire())) == "a"


def test_programs_that_ask_get_items_by_the_same_shares(fair):
    publish(fair, g="abcd", h="xyz")
    fair.takers.update({1, 2})
    done = fair.batch(*(Take(who(f"dan@x/{n}"), JOBS, 2, number=n, wait=1) for n in (1, 2)))
    got = [one.item.id for each in done.taken.values() for one in each]
    assert sorted(got) == ["a", "b", "x", "y"]


def test_the_rate_of_the_queue_holds(shell):
    shell.batch(a_queue(fair="group", group_limit=9, rate=2))
    publish(shell, g="abc", h="xyz")
    assert words(handed(shell, joins(ANN, 9))) == "ax"
    shell.wait(1)
    assert words(handed(shell, Expire())) == "by"


# --- what is not known, or is known no more


def test_a_start_finds_all_groups_by_their_names_in_slices(fair, monkeypatch):
    monkeypatch.setattr(shares, "SLICE", 2)
    publish(fair, **{group: [f"{group}{n}" for n in range(3)] for group in "ghijk"}, _="0")
    fair.rows.cache.forget()
    fair.changes.shares.of.clear()
    assert Counter(name[0] for name in handed(fair, joins(ANN, 16))) == dict.fromkeys(
        "ghijk", 3
    ) | {"0": 1}


def test_groups_beyond_those_that_are_remembered_have_their_turn_too(fair, monkeypatch):
    monkeypatch.setattr(shares, "MOST", 4)
    monkeypatch.setattr(shares, "FEWEST", 4)
    monkeypatch.setattr(shares, "SLICE", 3)
    groups = "ghijklmnop"
    publish(fair, **{group: [f"{group}{n}" for n in range(2)] for group in groups})
    order = handed(fair, joins(ANN, 1))
    while len(order) < 20:
        order += handed(fair, retracts(ANN, order[-1]))
        assert len(fair.changes.shares.of[JOBS].uses) <= 8
    assert sorted(order) == sorted(f"{group}{n}" for group in groups for n in range(2))


def test_what_another_process_publishes_is_found(fair, tmp_path):
    other = Shell(tmp_path / "queue.db")
    other.unreachable = {ANN}
    publish(fair, g="ab")
    assert words(handed(fair, joins(ANN, 1))) == "a"
    other.batch(publishes("x", group="h"), publishes("y"))
    order = "a"
    for _ in range(3):
        order += words(handed(fair, retracts(ANN, order[-1])))
    other.close()
    assert sorted(order) == ["a", "b", "x", "y"]


def test_items_without_a_group_behind_thousands_of_others_are_found(fair, monkeypatch):
    monkeypatch.setattr(shares, "PLACES", 3)
    publish(fair, **{group: [f"{group}{n}" for n in range(3)] for group in "ghi"}, _="01")
    fair.batch(sets(weights="=1000"))
    said = handed(fair, joins(ANN, 11))
    assert len(said) == len(set(said)) == 11


def test_a_lock_whose_end_was_not_seen_counts_until_its_deadline(fair):
    publish(fair, g="a")
    handed(fair, joins(ANN, 5))
    handed(fair, Purge(who(BOSS), JOBS))
    share = fair.changes.shares.of[JOBS]
    assert share.uses["g"].held == 1
    fair.wait(301)
    publish(fair, g="b")
    assert share.uses["g"].held == 1  # only the new one


def test_a_batch_that_is_rolled_back_has_used_nothing(fair, monkeypatch):
    publish(fair, g="ab", h="x")
    handed(fair, joins(ANN, 1))
    share = fair.changes.shares.of[JOBS]
    before = dict(share.uses)

    def fails(*_):
        raise RuntimeError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(type(fair.rows.pending), "flush", fails)
        with pytest.raises((RuntimeError, UndeliverableError)):
            fair.batch(retracts(ANN, "a"), joins(BOB, 5))
    assert share.uses == before
    assert words(handed(fair, retracts(ANN, "a"))) == "x"


def test_it_can_be_switched_on_and_off_while_there_is_work(shell):
    shell.batch(a_queue(group_limit=9))
    publish(shell, g="abcdef", h="xyz")
    assert words(handed(shell, joins(ANN, 1))) == "a"
    handed(shell, sets(fair="group"))
    assert words(handed(shell, retracts(ANN, "a"))) == "b"
    assert words(handed(shell, retracts(ANN, "b"))) == "x"
    handed(shell, sets(fair="off"))
    assert not shell.changes.shares.of
    assert words(handed(shell, retracts(ANN, "x"))) == "c"


# --- what it costs


def test_nothing_is_kept_or_counted_of_queues_without_it(shell, monkeypatch):
    def fails(*_):
        raise AssertionError("it is not used")

    for name in ("put", "ended", "open", "begin", "undo"):
        monkeypatch.setattr(shares.Shares, name, fails)
    shell.batch(a_queue(group_limit=3))
    publish(shell, g="abc", _="x")
    assert words(handed(shell, joins(ANN, 9))) == "abcx"
    assert handed(shell, retracts(ANN, *"abcx")) == []


@pytest.mark.parametrize("groups", [10, 40])
def test_a_delivery_takes_as_many_statements_however_many_groups_there_are(
    shell, groups, monkeypatch
):
    monkeypatch.setattr(shares, "PLACES", 9)  # that no item has no group is found in several looks
    shell.batch(a_queue(fair="group"), joins(BOB, 1))
    publish(shell, **{f"g{n}": [f"a{n}", f"b{n}"] for n in range(groups)})
    (name,) = handed(shell, joins(ANN, 1))
    for _ in range(12):
        (name,) = handed(shell, retracts(ANN, name))
    run = []
    shell.connection.set_trace_callback(run.append)
    (name,) = handed(shell, retracts(ANN, name))
    assert len([line for line in run if not line.startswith("--")]) <= STATEMENTS, run
