"""Settling with commits: many locks at once, each separately."""

from harness.batches.facts import ANN, BOB, BOSS, JOBS, who
from harness.batches.queue_requests import (
    a_queue,
    joins,
    publishes,
    publishes_all,
    retracts,
    settles_each,
    touches,
    unlocks,
)
from harness.stores.rows import needs_of
from msgspec.structs import replace

from pubqueue.engine.listings import Events
from pubqueue.model.decision import Done, Published, Refusal, Refused, SettledEach, Touched
from pubqueue.model.entities import ItemId, Millis, NodeName, State
from pubqueue.model.records import EventKind
from pubqueue.rules.expire import Expire
from pubqueue.rules.settle import Outcome
from pubqueue.rules.subscribe import Options, SetOptions, Subscribe
from pubqueue.rules.validity import MAX_NAMED

DEAD = NodeName("dead")


def token(shell, name, node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name))).token


def refusals(reply):
    return [
        answer.refusal if isinstance(answer, Refused) else type(answer) for answer in reply.answers
    ]


def test_settleable_items_are_settled_and_others_are_named(shell):
    shell.batch(a_queue(dedup_window=60), joins(ANN, 2), joins(BOB), publishes("a", "b", "c"))
    locks = {name: (name, token(shell, name)) for name in ("a", "b", "c")}
    holder = {n: shell.look(lambda tx, n=n: tx.item(JOBS, ItemId(n))).holder for n in locks}
    others = next(name for name in locks if holder[name] == BOB)
    mine = [name for name in locks if holder[name] == ANN]
    request = settles_each(retracts(ANN), *locks.values(), ("d", 1), (mine[0], 0))
    reply = shell.do(request)
    expected = {**dict.fromkeys(mine, Done), others: Refusal.LOCKED_BY_ANOTHER}
    assert refusals(reply) == [
        *(expected[name] for name in locks),
        Refusal.ITEM_NOT_FOUND,
        Refusal.LOCK_LOST,
    ]
    assert [name for name in locks if shell.look(lambda tx, n=name: tx.item(JOBS, ItemId(n)))] == [
        others
    ]
    assert isinstance(shell.do(publishes(mine[0])), Published)  # it is finished, and absorbed
    assert shell.look(lambda tx: tx.item(JOBS, ItemId(mine[0]))) is None


def test_the_event_log_has_an_entry_for_each_as_if_it_had_come_alone(shell):
    shell.batch(a_queue(event_log=1), joins(ANN, 3), publishes("a", "b", "c"))
    said = unlocks(ANN, outcome=Outcome.FAILED, reason="no ink")
    shell.do(settles_each(said, ("a",), ("b",)))
    shell.do(settles_each(retracts(BOSS), ("a",)))
    shell.do(settles_each(retracts(ANN), ("c",)))
    log = shell.look(lambda tx: tx.page(Events(JOBS, 99), None, 99))
    ends = {EventKind.UNLOCKED, EventKind.RETRACTED, EventKind.COMPLETED}
    found = [(e.event.kind, e.event.item, e.event.detail) for e in log if e.event.kind in ends]
    assert found == [
        (EventKind.UNLOCKED, "a", "no ink"),
        (EventKind.UNLOCKED, "b", "no ink"),
        (EventKind.RETRACTED, "a", ""),
        (EventKind.COMPLETED, "c", ""),
    ]


def test_late_answers_count_where_no_other_has_had_the_item(shell):
    shell.batch(a_queue(lock_timeout=5, dedup_window=60), joins(ANN, 2), publishes("a", "b"))
    locks = [(name, token(shell, name)) for name in ("a", "b")]
    shell.do(a_queue(lock_timeout=5, dedup_window=60, paused=True))
    shell.wait(6)
    shell.do(Expire())
    strict = shell.do(settles_each(retracts(ANN), *locks))
    assert refusals(strict) == [Refusal.LOCK_LOST] * 2
    late = shell.do(settles_each(replace(retracts(ANN), late=True), *locks))
    assert late == SettledEach(JOBS, (Done(), Done()))
    known = shell.do(publishes("a", "b"))
    assert known.known == ("a", "b")


def test_addresses_of_one_account_settle_through_one_of_them(shell):
    shell.batch(a_queue(), joins("ann@x/1"), joins("ann@x/2"), publishes("a", "b"))
    held = {n: shell.look(lambda tx, n=n: tx.item(JOBS, ItemId(n))) for n in ("a", "b")}
    locks = [(name, item.token, item.holder) for name, item in held.items()]
    reply = shell.do(settles_each(retracts("ann@x/3"), *locks))
    assert reply == SettledEach(JOBS, (Done(), Done()))
    assert shell.look(lambda tx: tx.node(JOBS)).items == 0


def test_deadlines_are_extended_each_for_itself(shell):
    shell.batch(a_queue(lock_timeout=60), joins(ANN), publishes("a"))
    shell.wait(20)
    reply = shell.do(settles_each(touches(ANN), ("a", token(shell, "a")), ("b", 1)))
    touched, gone = reply.answers
    assert isinstance(touched, Touched)
    assert touched.entries == (("a", shell.now + 60_000),)
    assert gone == Refused(Refusal.ITEM_NOT_FOUND)


def test_a_subscribers_lock_timeout_lasts_until_it_sets_another(shell):
    options = Options(1, lock_timeout="5")
    shell.batch(
        a_queue(lock_timeout=60, backoff_min=0), Subscribe(who(ANN), JOBS, ANN, "s", options)
    )
    shell.do(publishes("a"))
    assert shell.look(lambda tx: tx.item(JOBS, ItemId("a"))).deadline == shell.now + 5_000
    touched = shell.do(touches(ANN, "a"))
    assert touched.entries == (
        ("a", shell.now + 60_000),
    )  # by a touch, as long as the queue allows
    shell.do(SetOptions(who(ANN), JOBS, ANN, None, Options(lock_timeout="")))
    shell.do(retracts(ANN, "a"))
    shell.do(publishes("b"))
    assert shell.look(lambda tx: tx.item(JOBS, ItemId("b"))).deadline == shell.now + 60_000


def test_a_deadline_that_has_come_nearer_is_when_the_lock_ends(shell):
    shell.batch(a_queue(lock_timeout=60, backoff_min=5), joins(ANN), publishes("a"))
    shell.do(a_queue(lock_timeout=60, backoff_min=5, paused=True))
    nearer = replace(touches(ANN, "a"), span=Millis(2000), exact=True)
    assert shell.batch(nearer).soonest == shell.now + 2000
    assert shell.look(lambda tx: tx.next_due()) == shell.now + 2000
    shell.wait(2)
    shell.do(Expire())
    item = shell.look(lambda tx: tx.item(JOBS, ItemId("a")))
    assert (item.holder, item.failed) == (None, 1)


def test_giving_up_a_lock_by_a_touch_counts_no_failure(shell):
    shell.batch(a_queue(event_log=1), joins(ANN), joins(BOB), publishes("a"))
    before = shell.look(lambda tx: tx.item(JOBS, ItemId("a")))
    shell.do(replace(touches(before.holder, "a"), span=Millis(0), exact=True))
    after = shell.look(lambda tx: tx.item(JOBS, ItemId("a")))
    assert {before.holder, after.holder} == {ANN, BOB}
    assert (after.failed, after.released) == (0, 1)


def test_all_that_die_share_the_room_of_the_dead_letter_node(shell):
    shell.batch(a_queue(DEAD, max_items=2), a_queue(dead_letter_node=DEAD), joins(ANN, 3))
    shell.do(publishes("a", "b", "c"))
    said = unlocks(ANN, outcome=Outcome.REJECT)
    shell.do(settles_each(said, ("a",), ("b",), ("c",)))
    assert shell.look(lambda tx: tx.node(DEAD)).items == 2
    (left,) = [
        item
        for name in ("a", "b", "c")
        if (item := shell.look(lambda tx, n=name: tx.item(JOBS, ItemId(n))))
    ]
    assert left.state is State.DEAD


def test_a_repeated_settle_has_the_same_answer_until_it_is_forgotten(shell):
    shell.batch(a_queue(), joins(ANN, 2), publishes("a", "b"))
    once = replace(retracts(ANN, "a"), token=token(shell, "a"), remember=Millis(60_000))
    back = replace(unlocks(ANN, "b"), token=token(shell, "b"), remember=Millis(60_000))
    assert [shell.do(once), shell.do(back)] == [Done(), Done()]
    restarted(shell)
    assert [shell.do(once), shell.do(back)] == [Done(again=True), Done(again=True)]
    assert shell.do(
        replace(unlocks(ANN, "a"), token=once.token, remember=once.remember)
    ).refusal is (Refusal.LOCK_LOST)
    shell.do(publishes("a"))  # another item of this id is another lock
    assert shell.do(once) == Done(again=True)
    assert shell.look(lambda tx: tx.item(JOBS, ItemId("a"))) is not None
    shell.wait(61)
    shell.do(Expire())
    assert (
        shell.look_within(lambda tx: tx.load(needs_of(settled={once.token, back.token})).of) == {}
    )
    assert shell.do(once).refusal is Refusal.LOCK_LOST


def test_twice_in_one_batch_is_a_repetition_too(shell):
    shell.batch(a_queue(), joins(ANN), publishes("a"))
    once = replace(retracts(ANN, "a"), token=token(shell, "a"), remember=Millis(60_000))
    replies = [decision.reply for decision in shell.batch(once, once, once).decisions]
    assert replies == [Done(), Done(again=True), Done(again=True)]


def test_each_of_many_locks_is_remembered(shell):
    shell.batch(a_queue(), joins(ANN, 2), publishes("a", "b", "c"))
    locks = [(name, token(shell, name)) for name in ("a", "b", "c")]
    said = replace(retracts(ANN), remember=Millis(60_000))
    first = shell.do(settles_each(said, locks[0]))
    assert first == SettledEach(JOBS, (Done(),))
    both = settles_each(said, *locks[:2])
    assert shell.do(both) == SettledEach(JOBS, (Done(again=True), Done()))
    assert shell.do(both) == SettledEach(JOBS, (Done(again=True), Done(again=True)))
    assert shell.look(lambda tx: tx.node(JOBS)).items == 1


def restarted(shell):
    """Drop all caches."""
    shell.rows.cache.forget()


def test_as_many_as_may_be_named_are_loaded_together(shell):
    names = [f"i{number}" for number in range(MAX_NAMED)]
    shell.batch(a_queue(max_queue_requests=MAX_NAMED), joins(ANN, MAX_NAMED))
    for request in publishes_all(names):
        shell.do(request)
    locks = [(name, token(shell, name)) for name in names]
    reply = shell.do(settles_each(retracts(ANN), *locks))
    assert reply.answers == (Done(),) * MAX_NAMED
    assert shell.look(lambda tx: tx.node(JOBS)).items == 0


def test_strangers_learn_once_that_the_queue_is_closed(shell):
    shell.batch(a_queue(access_model="whitelist"), publishes("a"))
    reply = shell.do(settles_each(retracts("eve@x/1"), ("a",), ("b",)))
    assert reply == Refused(Refusal.CLOSED_NODE)
