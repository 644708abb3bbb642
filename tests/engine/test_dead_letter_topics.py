"""Items that die in a queue whose dead-letter node is a plain node: each queue that it feeds gets them, or none."""

import tempfile
from pathlib import Path

import pytest
from harness.batches.both_shells import BothShells
from harness.batches.facts import ANN, BOSS, JOBS, after, who
from harness.batches.queue_requests import (
    a_queue,
    joins,
    publishes,
    retracts,
    settles_each,
    unlocks,
)
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.depth import examples
from harness.stores.store_contents import misweighed, recount
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pubqueue.model.decision import Done
from pubqueue.model.entities import DELIVERIES, DIED_IN, ItemId, Jid, NodeName, State, digest
from pubqueue.model.records import Quota, Quotas
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.feed import elsewhere
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.settle import Outcome
from pubqueue.rules.together import Together

LOST = NodeName("lost")
FED = tuple(map(NodeName, "abc"))
KIND = (("kind", "x"),)


def a_topic():
    wanted = Settings({"queueing": False, "access_model": "open", "persist_items": False})
    return Declare(who(BOSS, admin=True), LOST, wanted, (Jid("boss@x"),), (Jid("etl@x"),))


def configures(node, **wanted):
    return Configure(who(BOSS), node, Settings(wanted))


def sets_up(**facts):
    """Make the queue whose items die at once, and the queues that get them."""
    yield a_topic()
    for name in FED:
        yield a_queue(name, source=LOST)
    yield a_queue(dead_letter_node=LOST, **{"max_failures": 1} | facts)
    yield joins(ANN, 10)


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    made.batch(*sets_up())
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    made.close()


def contents(shell, node):
    return shell.look(lambda tx: list(tx.contents(node)))


def ids(shell, *nodes):
    return {str(node): [item.id for item, _ in contents(shell, node)] for node in nodes}


def each_has(names):
    return {str(node): names for node in FED}


def fails(shell, *names, outcome=Outcome.FAILED):
    assert shell.do(unlocks(ANN, *names, outcome=outcome)) == Done()


def test_every_queue_gets_it_with_where_and_how_often_it_failed(shell):  # grpc G35
    shell.batch(publishes("i1", payload=b"<one/>", headers=KIND, priority=3))
    fails(shell, "i1")
    assert contents(shell, JOBS) == []
    for name in FED:
        ((item, payload),) = contents(shell, name)
        assert (item.id, payload, item.priority) == ("i1", b"<one/>", 3)
        assert item.headers == (*KIND, (DIED_IN, "jobs"), (DELIVERIES, "1"))
        assert (item.state, item.failed, item.acquired) == (State.QUEUED, 0, 0)
        assert item.publisher == "etl@x"


def test_a_filter_leaves_a_queue_out_and_an_id_that_is_taken_does_not(shell):  # grpc G35
    shell.batch(configures(FED[0], filter="headers:kind"))
    shell.batch(publishes("i1", node=FED[1], payload=b"<another/>", by=BOSS))
    shell.batch(publishes("i1", node=FED[2], payload=b"<one/>", by=BOSS))
    shell.batch(publishes("i1", payload=b"<one/>"))
    fails(shell, "i1")
    assert [item.state for item, _ in contents(shell, JOBS)] == [State.DEAD]  # none has room for it
    shell.batch(publishes("i2", node=FED[1], payload=b"<another/>", by=BOSS))
    shell.batch(publishes("i2", payload=b"<two/>", headers=KIND))
    fails(shell, "i2")
    assert ids(shell, FED[0], FED[2]) == {"a": ["i2"], "c": ["i1", "i2"]}
    other = elsewhere(ItemId("i2"), digest(b"<two/>"))
    assert ids(shell, FED[1]) == {"b": ["i1", "i2", other]}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"publish_paused": True}, "publishing to b is paused"),
        ({"max_payload_size": 3}, "b: payload too big"),
        ({"max_items": 0}, "it is full"),
        ({"max_bytes": 5}, "it is full"),
    ],
)
def test_a_queue_that_refuses_it_leaves_it_where_it_died(shell, wanted, why):  # grpc G35
    if "max_items" in wanted:
        shell.batch(publishes("there", node=FED[1], by=BOSS))
        wanted = {"max_items": 1}
    shell.batch(configures(FED[1], **wanted))
    shell.batch(publishes("i1", payload=b"<one/>"))
    fails(shell, "i1")
    ((item, _),) = contents(shell, JOBS)
    assert item.state is State.DEAD
    assert why in item.error
    assert ids(shell, FED[0], FED[2]) == {"a": [], "c": []}


def test_an_account_has_room_for_all_copies_or_none_is_made(shell):  # grpc G35
    shell.quotas = Quotas(Quota(0, 0, 0), {Jid("boss@x"): Quota(nodes=0, items=2, bytes=0)})
    shell.batch(publishes("i1"))
    fails(shell, "i1")
    assert ids(shell, *FED) == each_has([])
    shell.quotas = Quotas(Quota(0, 0, 0), {Jid("boss@x"): Quota(nodes=0, items=3, bytes=0)})
    shell.batch(Redrive(who(BOSS), JOBS))
    fails(shell, "i1")
    assert ids(shell, JOBS, *FED) == {"jobs": []} | each_has(["i1"])


def test_deaths_of_one_request_for_many_locks(shell):  # grpc G35
    shell.batch(publishes("i1", "i2"))
    said = unlocks(ANN, outcome=Outcome.FAILED)
    shell.batch(settles_each(said, (ItemId("i1"),), (ItemId("i2"),)))
    assert ids(shell, JOBS, *FED) == {"jobs": []} | each_has(["i1", "i2"])


def test_deaths_among_requests_that_are_done_together(shell):  # grpc G35
    shell.batch(publishes("i1", "i2"))
    parts = tuple(unlocks(ANN, name, outcome=Outcome.FAILED) for name in ("i1", "i2"))
    shell.do(Together(who(ANN), parts))
    assert ids(shell, JOBS, *FED) == {"jobs": []} | each_has(["i1", "i2"])


def test_a_dead_item_can_be_redriven_from_the_first_queue_without_its_marks(shell):  # grpc G35
    shell.batch(publishes("i1", payload=b"<one/>", headers=KIND))
    fails(shell, "i1")
    shell.batch(configures(JOBS, paused=True))
    shell.batch(Redrive(who(BOSS), FED[0], (ItemId("i1"),)))
    ((item, _),) = contents(shell, JOBS)
    assert (item.headers, item.size) == (KIND, len(b"<one/>") + len("kindx"))


def test_one_commit_makes_so_many_copies_and_the_others_have_one_more_attempt(shell, monkeypatch):
    monkeypatch.setattr("pubqueue.rules.give_back.MAX_COPIES", 4)
    names = ("i1", "i2", "i3")
    shell.batch(publishes(*names))
    fails(shell, *names)
    assert ids(shell, *FED) == each_has(["i1", "i2"])
    assert ids(shell, JOBS) == {"jobs": ["i3"]}
    shell.wait(120)
    shell.batch(Expire())
    fails(shell, "i3")
    assert ids(shell, JOBS, *FED) == {"jobs": []} | each_has(list(names))


def test_copies_are_work_and_a_batch_ends_after_much_of_it(shell, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.batch.MAX_WORK", 5)
    names = ("i1", "i2", "i3", "i4")
    shell.batch(publishes(*names))
    done = shell.batch(*[unlocks(ANN, name, outcome=Outcome.FAILED) for name in names])
    assert [decision.work for decision in done.decisions] == [2, 2, 2]
    assert ids(shell, *FED) == each_has(["i1", "i2", "i3"])


def test_expired_items_wait_their_turn_too(shell, monkeypatch):
    monkeypatch.setattr("pubqueue.rules.give_back.MAX_COPIES", 4)
    shell.batch(configures(JOBS, paused=True))
    names = ("i1", "i2", "i3")
    shell.batch(publishes(*names, ttl=10))
    for at, count in ((20, 2), (30, 3)):
        shell.now = after(at)
        shell.batch(Expire())
        assert ids(shell, *FED) == each_has(list(names[:count]))


def test_a_copy_has_the_lifetime_of_its_queue(shell):
    shell.batch(configures(FED[0], item_expire=60), configures(FED[1], item_expire=120))
    shell.batch(publishes("i1"))
    fails(shell, "i1")
    found = [item.expires for name in FED for item, _ in contents(shell, name)]
    assert found == [after(60), after(120), None]


class Dying(RuleBasedStateMachine):
    """Items of a queue that die at their first failure, and three queues that get them, compared with a model of their contents."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.shell = self.make_shell(Path(self.folder.name) / "queue.db")
        self.items = {node: {} for node in (JOBS, *FED)}
        self.headers = {}
        self.dead, self.paused, self.filtered, self.limits = set(), set(), set(), {}

    def make_shell(self, path):
        return Shell(path)

    def teardown(self):
        self.shell.close()
        self.folder.cleanup()

    @initialize()
    def begin(self):
        for request in sets_up():
            self.shell.batch(request)

    @rule(
        name=st.sampled_from(["i1", "i2", "i3"]),
        payload=st.sampled_from([b"<one/>", b"<two/>"]),
        headers=st.sampled_from([(), KIND]),
    )
    def publish(self, name, payload, headers):
        if name not in self.items[JOBS]:
            self.items[JOBS][name], self.headers[name] = payload, headers
            self.shell.batch(publishes(name, payload=payload, headers=headers))

    def comes(self, name):
        """Return the contents of the queues after the death of an item; None if it stays in its queue."""
        payload = self.items[JOBS][name]
        may = [one for one in FED if one not in self.filtered or self.headers[name]]
        free = [one for one in may if name not in self.items[one]]
        if not free or self.paused & {*may}:
            return None
        found = {}
        for queue in may:
            there = dict(self.items[queue])
            if there.setdefault(name, payload) != payload:
                there.setdefault(elsewhere(ItemId(name), digest(payload)), payload)
            grows = len(there) > len(self.items[queue])
            if grows and len(there) > self.limits.get(queue, len(there)):
                return None
            found[queue] = there
        return found

    @rule()
    def fail_the_first(self):
        for name in [one for one in self.items[JOBS] if one not in self.dead][:1]:
            comes = self.comes(name)
            fails(self.shell, name)
            if comes is None:
                self.dead.add(name)
            else:
                self.items |= comes
                del self.items[JOBS][name]

    @rule()
    def let_the_dead_live(self):
        self.shell.batch(Redrive(who(BOSS), JOBS))
        self.dead.clear()

    @rule(queue=st.sampled_from(FED))
    def finish(self, queue):
        for name in [*self.items[queue]][:1]:
            self.shell.batch(retracts(BOSS, name, node=queue))
            del self.items[queue][name]

    @rule(queue=st.sampled_from(FED), on=st.booleans())
    def pause(self, queue, on):
        self.shell.batch(configures(queue, publish_paused=on))
        self.paused = self.paused | {queue} if on else self.paused - {queue}

    @rule(queue=st.sampled_from(FED), on=st.booleans())
    def filter_or_not(self, queue, on):
        self.shell.batch(configures(queue, filter="headers:kind" if on else ""))
        self.filtered = self.filtered | {queue} if on else self.filtered - {queue}

    @rule(queue=st.sampled_from(FED), most=st.sampled_from([None, 1, 2]))
    def bound(self, queue, most):
        self.shell.batch(configures(queue, max_items=most))
        self.limits.pop(queue, None)
        if most is not None:
            self.limits[queue] = most

    @invariant()
    def each_queue_has_what_it_should(self):
        for node, items in self.items.items():
            assert {item.id: payload for item, payload in contents(self.shell, node)} == items
        assert {i.id for i, _ in contents(self.shell, JOBS) if i.state is State.DEAD} == self.dead

    @invariant()
    def counts_equal_a_recount(self):
        assert self.shell.look_within(recount) == self.shell.look_within(misweighed) == []


TestDying = Dying.TestCase
TestDying.settings = settings(max_examples=examples(5), stateful_step_count=30)


def test_on_both_stores(running_postgres):
    class OnBoth(Dying):
        def make_shell(self, path):
            running_postgres.wipe()
            return BothShells(Shell(path), PostgresShell(running_postgres.address))

    run_state_machine_as_test(
        OnBoth, settings=settings(max_examples=examples(3), stateful_step_count=25)
    )
