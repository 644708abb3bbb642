"""Publishes, retracts and unlocks that are done together: each judged with the changes of those before it, all or none.

The expected result is known: that of the same requests one after another, in one batch. It is compared row by row.
"""

import pytest
from harness.batches.facts import BOSS, ETL, EVE, JOBS, draft, who
from harness.batches.queue_requests import (
    a_queue,
    holds,
    joins,
    publishes,
    retracts,
    signals,
    unlocks,
)
from harness.batches.shell import Shell
from harness.batches.two_shells import MemoryShell, PostgresShell
from harness.depth import examples
from harness.stores.store_contents import ALL, everything, misweighed, out_of_step, recount
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.engine.listings import Events
from pubqueue.model.decision import Done, DoneTogether, Published, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, Millis, NodeName, State
from pubqueue.model.records import Quota, Quotas
from pubqueue.rules.access import AutoCreation
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Outcome
from pubqueue.rules.subscribe import Subscribe
from pubqueue.rules.together import Together
from pubqueue.rules.trimming import ResumeTrims
from pubqueue.stores.sqlite.in_memory import Memory

OTHER, NEWS, SMALL, DEAD, NEW = map(NodeName, ("other", "news", "small", "jobs-dead", "new"))
WORKER = "etl@x/worker"
READER = Jid("reader@x/1")


def all_of(*parts, by=ETL):
    return Together(who(by), parts)


def a_plain_node(name=NEWS, **config):
    wanted = Settings({"access_model": "open", "publish_model": "open"} | config)
    return Declare(who(BOSS, admin=True), name, wanted, (Jid("boss@x"),), (Jid("etl@x"),))


def furnish(shell):
    """Make two queues, one with a dead-letter node, and a plain node that keeps three items; a worker of the publisher's account."""
    shell.do(a_queue(DEAD, event_log=True))
    shell.do(
        a_queue(dedup_window=60, dead_letter_node=DEAD, max_failures=1, event_log=True, max_items=9)
    )
    shell.do(a_queue(OTHER))
    shell.do(a_plain_node(max_items=3, persist_items=True))
    shell.do(a_plain_node(SMALL, max_bytes=20, persist_items=True))
    shell.do(Subscribe(who(READER), NEWS, READER, "s"))
    shell.do(joins(WORKER, 3))
    shell.do(publishes("a", "b", "c", "d"))
    shell.do(publishes("n1", "n2", "n3", node=NEWS))


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    if request.param == "sqlite":
        shell = Shell(tmp_path / "queue.db")
    else:
        postgres = request.getfixturevalue("running_postgres")
        postgres.wipe()
        shell = PostgresShell(postgres.address)
    furnish(shell)
    yield shell
    consistent(shell)
    shell.close()


def consistent(shell):
    for look in (recount, misweighed):
        assert shell.look_within(look) == []
    assert shell.look_within(lambda tx: out_of_step(shell.rows.cache, tx)) == []


def stored(shell, name, node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


def refused(shell, *parts, by=ETL):
    """Run parts that have to be refused, and check that nothing has changed; return the reason, and the refused part."""
    before = shell.dump()
    reply = shell.do(all_of(*parts, by=by))
    assert shell.dump() == before
    assert isinstance(reply, Refused)
    return reply.refusal, reply.part


# --- all -----------------------------------------------------------------------------------------


def test_publishes_and_settles_of_several_nodes_are_done_and_each_has_its_reply(shell):
    parts = (
        publishes("x", "y", node=OTHER),
        retracts(WORKER, "a"),
        publishes("n4", node=NEWS),
        unlocks(WORKER, "b", delay=5000),
    )
    done = shell.batch(all_of(*parts)).decisions[0]
    assert done.reply == DoneTogether(
        (Published(OTHER, ("x", "y")), Done(), Published(NEWS, ("n4",)), Done())
    )
    notified = [type(getattr(notice, "what", notice)).__name__ for notice in done.notices]
    assert notified == ["Retracted", "Announce", "Retracted", "Unlocked"]  # n1 has gone for n4
    assert stored(shell, "a") is None
    assert stored(shell, "b").state is State.DELAYED
    assert stored(shell, "n1", NEWS) is None
    assert stored(shell, "x", OTHER).state is State.QUEUED


def test_no_part_is_done(shell):
    assert shell.do(all_of()) == DoneTogether(())


def test_a_part_can_retract_an_item_of_an_earlier_part(shell):
    reply = shell.do(all_of(publishes("x"), retracts(ETL, "x"), publishes("x")))
    assert reply == DoneTogether((Published(JOBS, ("x",)), Done(), Published(JOBS, ("x",))))
    assert stored(shell, "x") is not None


def test_a_part_replaces_or_leaves_an_item_of_an_earlier_part(shell):
    parts = [publishes("x", node=OTHER, payload=each) for each in (b"<a/>", b"<b/>", b"<b/>")]
    reply = shell.do(all_of(*parts))
    assert [one.known for one in reply.replies] == [(), (), ("x",)]
    assert shell.look(lambda tx: tx.payload(tx.item(OTHER, ItemId("x")))) == b"<b/>"


def test_an_item_that_a_part_retracts_is_done_for_later_parts(shell):
    reply = shell.do(all_of(retracts(WORKER, "a"), publishes("a")))
    assert reply.replies[1] == Published(JOBS, ("a",), (), ("a",))
    assert stored(shell, "a") is None


def test_a_node_that_a_part_makes_is_there_for_the_next(shell):
    shell.creation = AutoCreation.WITH_OPTIONS
    options = Settings({"queueing": True, "max_items": 2})
    makes = Publish(who(ETL), NEW, (draft("x"),), options)
    reply = shell.do(all_of(makes, publishes("y", node=NEW), retracts(ETL, "x", node=NEW)))
    assert isinstance(reply, DoneTogether)
    assert [stored(shell, name, NEW) is None for name in "xy"] == [True, False]


def test_a_queue_that_a_part_makes_is_fed_by_the_next(shell):
    shell.creation = AutoCreation.WITH_OPTIONS
    options = Settings({"queueing": True, "source": NEWS})
    makes = Publish(who(ETL), NEW, (draft("x"),), options)
    reply = shell.do(all_of(makes, publishes("n4", node=NEWS)))
    assert isinstance(reply, DoneTogether)
    assert list(shell.look(lambda tx: tx.item_ids(NEW))) == ["x", "n4"]


def test_a_lock_that_a_part_settles_is_remembered(shell):
    token = stored(shell, "a").token
    once = replace(retracts(WORKER, "a"), token=token, remember=Millis(60_000))
    assert shell.do(all_of(once, once)) == DoneTogether((Done(), Done(again=True)))
    assert shell.do(once) == Done(again=True)


def test_the_log_has_of_each_part_what_it_has_of_a_single_request(shell):
    shell.do(
        all_of(retracts(WORKER, "a"), retracts(ETL, "d"), unlocks(WORKER, "b", reason="later"))
    )
    log = shell.look_within(lambda tx: tx.page(Events((JOBS,), ALL), None, ALL))
    ends = {"completed", "retracted", "unlocked"}
    kinds = [(one.event.kind.value, one.event.item) for one in log if one.event.kind.value in ends]
    assert kinds == [("completed", "a"), ("retracted", "d"), ("unlocked", "b")]


def test_a_full_plain_node_drops_its_oldest_items_for_each_part(shell):
    parts = [publishes(f"m{number}", node=NEWS) for number in range(5)]
    shell.do(all_of(publishes("m0", node=NEWS), *parts, retracts(ETL, "m3", node=NEWS)))
    assert [stored(shell, f"m{n}", NEWS) is None for n in range(5)] == [
        True,
        True,
        False,
        True,
        False,
    ]


def test_a_large_item_lets_more_small_ones_go_than_are_read_at_once(shell):
    config = {"max_bytes": 3000, "persist_items": True}
    shell.do(a_plain_node(NEW, **config))
    shell.do(publishes(*(f"s{number}" for number in range(500)), node=NEW, payload=b"<job/>"))
    large = b"<job>" + b"x" * 2900 + b"</job>"
    reply = shell.do(all_of(*(publishes(name, node=NEW, payload=large) for name in "xy")))
    assert isinstance(reply, DoneTogether)
    while (then := shell.batch(ResumeTrims()).decisions[0].then) is not None:
        shell.do(then)
    assert list(shell.look(lambda tx: tx.item_ids(NEW))) == ["y"]


def test_an_item_is_held_with_what_it_asks_for(shell):
    done = shell.batch(all_of(holds(WORKER, "a", "paid"), publishes("x", node=OTHER))).decisions[0]
    assert done.reply == DoneTogether((Done(), Published(OTHER, ("x",))))
    assert stored(shell, "a").state is State.HELD
    assert shell.do(signals("a", "paid")).wakes


def test_a_part_holds_what_was_signaled_before_and_it_goes_on_at_once(shell):
    shell.do(signals("a", "paid"))
    shell.do(all_of(holds(WORKER, "a", "paid"), publishes("x", node=OTHER)))
    assert stored(shell, "a").state in {State.QUEUED, State.LOCKED}


# --- or none -------------------------------------------------------------------------------------


# fmt: off
REFUSED = {
    "a part that is not found":        ((publishes("x"), retracts(WORKER, "gone")),           Refusal.ITEM_NOT_FOUND, 1),
    "a node that is not there":        ((publishes("x"), publishes("y", node=NEW)),           Refusal.NODE_NOT_FOUND, 1),
    "what an earlier part retracted":  ((retracts(WORKER, "a"), retracts(WORKER, "a")),       Refusal.ITEM_NOT_FOUND, 1),
    "a lock that an earlier one ended": ((unlocks(WORKER, "a"), retracts(WORKER, "a")),       Refusal.LOCK_LOST, 1),
    "its unlock":                      ((unlocks(WORKER, "a"), unlocks(WORKER, "a")),         Refusal.LOCK_LOST, 1),
    "what an earlier one has killed":  ((unlocks(WORKER, "a", outcome=Outcome.REJECT), unlocks(WORKER, "a")), Refusal.ITEM_NOT_FOUND, 1),
    "a payload of what is locked":     ((publishes("x"), publishes("a", payload=b"<b/>")),    Refusal.ITEM_LOCKED, 1),
    "an item that no lock is on":      ((publishes("x"), unlocks(WORKER, "x")),               Refusal.NOT_YOURS, 1),
    "more than the node has room for": (tuple(publishes(f"x{n}") for n in range(6)),          Refusal.NODE_FULL, 5),
    "what is no id":                   ((publishes("x"), publishes("y"), publishes("")),      Refusal.BAD_REQUEST, 2),
    "the very first":                  ((publishes("a", payload=b"<b/>"), publishes("x")),    Refusal.ITEM_LOCKED, 0),
    "a follow-up of what is held":     ((holds(WORKER, "a", "paid"), publishes("x", node=NEW)), Refusal.NODE_NOT_FOUND, 1),
    "a hold after its end":            ((retracts(WORKER, "a"), holds(WORKER, "a", "paid")),  Refusal.ITEM_NOT_FOUND, 1),
    "a hold of no lock":               ((holds(WORKER, "d", "paid"), publishes("x")),         Refusal.NOT_YOURS, 0),
    "a hold that waits for nothing":   ((publishes("x"), holds(WORKER, "a")),                 Refusal.BAD_REQUEST, 1),
    "another account's":               ((publishes("x"), publishes("y", by=EVE)),             Refusal.BAD_REQUEST, 1),
}
# fmt: on


@pytest.mark.parametrize(("parts", "why", "part"), REFUSED.values(), ids=REFUSED)
def test_a_refused_part_is_named_and_nothing_has_happened(shell, parts, why, part):
    assert refused(shell, *parts) == (why, part)


def test_a_refusal_leaves_the_others_of_its_batch_as_they_are(shell):
    first, bad, last = publishes("x"), all_of(publishes("y"), retracts(ETL, "gone")), publishes("y")
    done = shell.batch(first, bad, last, all_of(retracts(ETL, "x"), publishes("z")))
    kinds = [type(one.reply) for one in done.decisions]
    assert kinds == [Published, Refused, Published, DoneTogether]
    assert [stored(shell, name) is None for name in "xyz"] == [True, False, False]


def test_a_fault_of_ours_in_a_part_refuses_all_parts_and_no_other_request(shell):
    def broken(there, offered):
        raise ValueError(there, offered)

    shell.same = broken
    bad = all_of(publishes("x"), publishes("d"))
    done = shell.batch(publishes("y"), bad, publishes("z"))
    replies = [one.reply for one in done.decisions]
    assert replies[1] == Refused(Refusal.INTERNAL_FAULT, part=1)
    assert [stored(shell, name) is None for name in "xyz"] == [True, False, False]


def test_the_quota_of_the_creator_counts_every_part(shell):
    shell.quotas = Quotas(Quota(0, 9, 0), {})
    publish = [publishes(f"x{n}", node=OTHER) for n in range(3)]
    assert refused(shell, *publish) == (Refusal.TOO_MUCH_KEPT, 2)
    assert isinstance(shell.do(all_of(retracts(WORKER, "a"), *publish)), DoneTogether)


def test_a_token_of_a_lock_that_is_no_more_refuses_all(shell):
    one = retracts(WORKER, "a")
    stale = type(one)(one.by, one.node, one.ids, one.verb, token=10_000)
    assert refused(shell, publishes("x"), stale) == (Refusal.LOCK_LOST, 1)


# --- as one after the other ----------------------------------------------------------------------


NAMES = st.lists(st.sampled_from("abcdxyz").map(ItemId), min_size=1, max_size=3, unique=True)
PAYLOADS = st.sampled_from([b"<job/>", b"<job/>", b"<two/>", b"<longer-than-two/>"])
NODES = st.sampled_from([JOBS, JOBS, OTHER, NEWS, NEWS, SMALL, DEAD, NEW])
SETTLING = st.sampled_from([ETL, WORKER, WORKER])


@st.composite
def parts(draw):
    node, names = draw(NODES), draw(NAMES)
    kind = draw(st.sampled_from(["publish", "publish", "retract", "unlock", "hold"]))
    if kind == "publish":
        more = draw(st.sampled_from([{}, {}, {"delay": 3}, {"group": "g"}, {"ttl": 9}]))
        made = publishes(*names, node=node, payload=draw(PAYLOADS), **more)
        if node == NEW and draw(st.booleans()):
            wanted = draw(st.sampled_from([{"queueing": True, "max_items": 2}, {"max_items": 2}]))
            return type(made)(made.by, node, made.drafts, Settings(wanted))
        return made
    if kind == "retract":
        return retracts(draw(SETTLING), *names, node=node)
    if kind == "hold":
        return holds(WORKER, names[0], "go", node=node, carry="1")
    return unlocks(WORKER, *names, node=node, outcome=draw(st.sampled_from(Outcome)))


def in_memory(quota):
    shell = MemoryShell(Memory())
    shell.creation = AutoCreation.WITH_OPTIONS
    furnish(shell)
    shell.quotas = Quotas(Quota(0, quota, 0), {})
    return shell


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    before=st.lists(parts(), max_size=4),
    wanted=st.lists(parts(), min_size=1, max_size=6),
    quota=st.sampled_from([0, 0, 9, 10]),
)
def test_the_result_equals_that_of_the_parts_one_by_one(before, wanted, quota):
    singly, at_once = in_memory(quota), in_memory(quota)
    for one in before:
        assert singly.do(one) == at_once.do(one)
    as_before = contents(at_once)
    together = at_once.batch(all_of(*wanted))
    alone = singly.batch(*wanted)
    replies = [one.reply for one in alone.decisions]
    refusals = [at for at, reply in enumerate(replies) if isinstance(reply, Refused)]
    reply = together.decisions[0].reply
    if refusals:
        no = replies[refusals[0]]
        assert (reply.refusal, reply.reason, reply.limit) == (no.refusal, no.reason, no.limit)
        assert reply.part == refusals[0]
        assert contents(at_once) == as_before
    else:
        assert reply == DoneTogether(tuple(replies))
        notices = [notice for one in alone.decisions for notice in one.notices]
        assert list(together.decisions[0].notices) == notices
        assert together.deliveries == alone.deliveries
        assert contents(at_once) == contents(singly)
    consistent(at_once)


def contents(shell):
    return shell.look_within(everything)
