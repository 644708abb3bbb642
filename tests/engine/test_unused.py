"""Queues that are deleted when they are unused, on both stores."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, NOW, after, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.store_contents import misweighed, recount

from pubqueue.model.decision import LookedThrough
from pubqueue.model.entities import Jid, NodeName, seconds
from pubqueue.rules import declare
from pubqueue.rules.declare import Declare, DeleteUnused
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure
from pubqueue.rules.take import Take

NEWS, A, B = NodeName("news"), NodeName("a"), NodeName("b")
END = LookedThrough(NodeName(""))


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    made.close()


def node(shell, name=JOBS):
    return shell.look(lambda tx: tx.node(name))


def looks(shell, at):
    """Look through all nodes at this second, and return the last reply."""
    shell.now = after(at)
    decision = shell.batch(DeleteUnused()).decisions[0]
    while decision.then is not None:
        decision = shell.batch(decision.then).decisions[0]
    return decision.reply


def takes(shell, at, wait=0):
    shell.now = after(at)
    shell.batch(Take(who(ANN), JOBS, 1, seconds(wait), number=at + 1))


def test_an_unused_node_is_deleted_with_its_items_after_its_span_and_not_before(shell):  # grpc G25
    shell.batch(a_queue(unused_expire=100), publishes("i1"), a_queue(A))
    assert looks(shell, 0) == END
    looks(shell, 99)
    assert node(shell) is not None
    looks(shell, 100)
    assert node(shell) is None
    looks(shell, 10_000)
    assert node(shell, A) is not None  # nobody wants that


def test_a_request_for_items_counts_as_use(shell):  # grpc G25
    shell.batch(a_queue(unused_expire=100, lock_timeout=10))
    looks(shell, 0)
    takes(shell, 90, wait=50)
    looks(shell, 249)
    assert node(shell) is not None
    looks(shell, 250)  # 90, a wait of 50, a lock of 10, and the span
    assert node(shell) is None


def test_a_worker_that_polls_does_not_write_with_each_poll(shell):  # grpc G25
    shell.batch(a_queue(unused_expire=1_600, lock_timeout=1))
    looks(shell, 1)
    noted = set()
    for at in range(2, 402, 10):
        takes(shell, at)
        noted.add(node(shell).config.used)
    assert len(noted) == 4  # once in 100 seconds


def test_a_subscriber_uses_it(shell):  # grpc G25
    shell.batch(a_queue(unused_expire=100), joins(ANN, 1))
    for at in (0, 500, 1_000):
        looks(shell, at)
    assert node(shell).subscriptions == 1


def test_another_span_counts_from_its_first_look(shell):  # grpc G25
    shell.batch(a_queue(unused_expire=100))
    looks(shell, 0)
    shell.now = after(90)
    shell.batch(Configure(who(BOSS), JOBS, Settings({"unused_expire": 20})))
    looks(shell, 95)
    looks(shell, 114)
    assert node(shell) is not None
    shell.batch(Configure(who(BOSS), JOBS, Settings({"unused_expire": ""})))
    looks(shell, 1_000)
    assert node(shell) is not None


def test_a_node_that_feeds_it_feeds_it_no_more(shell):  # grpc G25
    wanted = Settings({"queueing": False, "access_model": "open", "persist_items": False})
    shell.do(Declare(who(BOSS, admin=True), NEWS, wanted, (Jid("boss@x"),), (Jid("etl@x"),)))
    for name in (A, B, JOBS):
        shell.do(a_queue(name, source=NEWS, **{} if name == JOBS else {"unused_expire": 10}))
    looks(shell, 0)
    looks(shell, 10)
    assert (node(shell, A), node(shell, B)) == (None, None)
    assert [feed.queue for feed in node(shell, NEWS).config.feeds] == [JOBS]
    assert shell.do(publishes("i1", node=NEWS)).ids == ("i1",)


def test_many_nodes_are_looked_at_in_slices(shell, monkeypatch):
    monkeypatch.setattr(declare, "SLICE", 2)
    monkeypatch.setattr("pubqueue.engine.facts.managing.SLICE", 2)
    for name in "abcde":
        shell.do(a_queue(NodeName(name), unused_expire=10))
    place, seen = NodeName(""), []
    while not seen or place:
        reply = shell.batch(DeleteUnused(place)).decisions[0].reply
        place = reply.up_to
        seen.append(place)
    assert seen == ["b", "d", ""]
    assert all(node(shell, NodeName(name)).config.used == NOW for name in "abcde")
