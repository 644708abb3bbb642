"""No node has more bytes than `max_bytes`, however they arrive; a full node behaves as with `max_items`."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from harness.batches.transactions import commits, stages
from harness.stores.store_contents import recount

from pubqueue.engine.facts import transactions
from pubqueue.engine.listings import Trims
from pubqueue.model.decision import Done, Published, Redriven, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, NodeName, State
from pubqueue.model.transactions import OnTaken
from pubqueue.rules import trimming
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.settle import Outcome
from pubqueue.rules.trimming import ResumeTrims

DEAD, NEWS = NodeName("dead"), NodeName("news")


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    yield shell
    assert shell.look_within(recount) == []
    shell.close()


def of(size):
    """Return a payload of this many bytes."""
    return b"<x>" + b"." * (size - 7) + b"</x>"


def puts(name, size, **more):
    return publishes(name, payload=of(size), **more)


def declares(node=NEWS, **settings):
    people = {"owners": (Jid("boss@x"),), "publishers": (Jid("etl@x"),)}
    return Declare(who(BOSS, admin=True), node, Settings(settings), **people)


def byte_count(shell, name=JOBS):
    return shell.look(lambda tx: tx.node(name)).bytes


def names(shell, node=JOBS):
    return shell.look(lambda tx: tx.item_ids(node))


def refusal(reply):
    assert isinstance(reply, Refused)
    return reply.refusal


class TestQueue:
    """A full queue refuses; nothing is dropped."""

    def test_room_is_taken_and_given_back(self, shell):
        shell.batch(a_queue(max_bytes=100), joins(ANN, 1))
        assert isinstance(shell.do(puts("a", 60)), Published)
        assert refusal(shell.do(puts("b", 41))) is Refusal.NODE_FULL
        assert isinstance(shell.do(puts("b", 40)), Published)
        assert byte_count(shell) == 100
        assert shell.do(retracts(ANN, "a")) == Done()
        assert byte_count(shell) == 40
        shell.do(Purge(who(BOSS), JOBS))
        assert byte_count(shell) == 0

    def test_publishes_of_one_batch_are_judged_one_behind_the_other(self, shell):
        shell.do(a_queue(max_bytes=100))
        first, second, third = shell.batch(puts("a", 60), puts("b", 60), puts("c", 40)).decisions
        assert isinstance(first.reply, Published)
        assert refusal(second.reply) is Refusal.NODE_FULL
        assert isinstance(third.reply, Published)

    def test_all_of_a_publish_find_room_or_none(self, shell):
        shell.do(a_queue(max_bytes=100))
        shell.do(puts("a", 60))
        assert refusal(shell.do(publishes("b", "c", payload=of(21)))) is Refusal.NODE_FULL
        assert names(shell) == ["a"]

    def test_an_item_that_can_never_fit_is_too_big(self, shell):
        shell.do(a_queue(max_bytes=100))
        assert refusal(shell.do(puts("a", 101))) is Refusal.PAYLOAD_TOO_BIG

    def test_another_payload_needs_the_room_that_it_has_more(self, shell):
        shell.do(a_queue(max_bytes=100))
        shell.batch(puts("a", 60), puts("b", 40))
        assert refusal(shell.do(puts("b", 41))) is Refusal.NODE_FULL
        assert isinstance(shell.do(puts("b", 30)), Published)
        assert isinstance(shell.do(puts("b", 40)), Published)

    def test_a_lower_bound_keeps_what_is_there(self, shell):
        shell.do(a_queue())
        shell.batch(puts("a", 60), puts("b", 40))
        assert shell.do(Configure(who(BOSS), JOBS, Settings({"max_bytes": 50}))) == Done()
        assert names(shell) == ["a", "b"]
        assert isinstance(shell.do(puts("b", 40)), Published)  # it is there already
        assert refusal(shell.do(puts("c", 10))) is Refusal.NODE_FULL

    def test_an_expired_item_makes_room(self, shell):
        shell.do(a_queue(max_bytes=100, dead_letter_node=DEAD))
        shell.batch(a_queue(DEAD), puts("a", 100, ttl=5))
        shell.wait(6)
        shell.do(Expire())
        assert (byte_count(shell), byte_count(shell, DEAD)) == (0, 100)
        assert isinstance(shell.do(puts("b", 100)), Published)


class TestDead:
    """Dead letters and redrives fill no node beyond its bytes."""

    @pytest.fixture(autouse=True)
    def _queues(self, shell):
        shell.batch(a_queue(DEAD, max_bytes=100))
        shell.batch(a_queue(max_failures=1, dead_letter_node=DEAD), joins(ANN, 9))

    def test_an_item_without_room_stays_where_it_died(self, shell):
        shell.batch(puts("a", 60), puts("b", 60), puts("c", 40))
        shell.do(unlocks(ANN, "a", "b", "c", outcome=Outcome.REJECT))
        assert (names(shell), names(shell, DEAD)) == (["b"], ["a", "c"])
        item = shell.look(lambda tx: tx.item(JOBS, ItemId("b")))
        assert item.state is State.DEAD
        assert item.error.endswith("not moved to dead: it is full")

    def test_a_redrive_takes_what_there_is_room_for(self, shell):
        shell.batch(puts("a", 60), puts("b", 40))
        shell.do(unlocks(ANN, "a", "b", outcome=Outcome.REJECT))
        shell.do(Configure(who(BOSS), JOBS, Settings({"max_bytes": 70})))
        named = Redrive(who(BOSS), DEAD, (ItemId("a"), ItemId("b")))
        assert refusal(shell.do(named)) is Refusal.NODE_FULL
        assert shell.do(Redrive(who(BOSS), DEAD)) == Redriven(DEAD, 1)
        assert (names(shell), names(shell, DEAD)) == (["a"], ["b"])


class TestPlainNode:
    """`publish_node_full` decides what a full plain node does."""

    def test_the_oldest_go(self, shell):
        shell.do(declares(max_bytes=100))
        for name in "abc":
            shell.do(puts(name, 30, node=NEWS))
        shell.do(puts("d", 50, node=NEWS))
        assert names(shell, NEWS) == ["c", "d"]
        assert byte_count(shell, NEWS) == 80

    def test_or_it_refuses(self, shell):
        shell.do(declares(max_bytes=100, publish_node_full="reject"))
        shell.do(puts("a", 60, node=NEWS))
        assert refusal(shell.do(puts("b", 60, node=NEWS))) is Refusal.NODE_FULL
        assert isinstance(shell.do(puts("a", 100, node=NEWS)), Published)
        assert byte_count(shell, NEWS) == 100

    def test_very_many_go_slice_by_slice_before_the_answer(self, shell, monkeypatch):
        monkeypatch.setattr(trimming, "SLICE", 3)
        shell.do(declares(max_bytes=200))
        for number in range(20):
            shell.do(puts(f"a{number}", 10, node=NEWS))
        decision = shell.batch(puts("large", 191, node=NEWS)).decisions[0]
        assert decision.then is not None
        assert shell.do(decision.then) == Published(NEWS, (ItemId("large"),))
        assert names(shell, NEWS) == ["large"]
        assert shell.look_within(lambda tx: tx.page(Trims(), None, 9)) == []

    def test_after_a_kill_between_two_slices_it_goes_on(self, tmp_path, shell, monkeypatch):
        monkeypatch.setattr(trimming, "SLICE", 3)
        shell.do(declares(max_bytes=200))
        for number in range(20):
            shell.do(puts(f"a{number}", 10, node=NEWS))
        shell.batch(puts("large", 191, node=NEWS))
        again = Shell(tmp_path / "queue.db")
        assert again.do(ResumeTrims()) == Done()
        assert names(again, NEWS) == ["large"]
        again.close()

    def test_a_lower_bound_drops_the_oldest_at_once(self, shell):
        shell.do(declares())
        for name in "abc":
            shell.do(puts(name, 30, node=NEWS))
        shell.do(Configure(who(BOSS), NEWS, Settings({"max_bytes": 59})))
        assert names(shell, NEWS) == ["c"]


@pytest.mark.parametrize("many", [False, True], ids=["one batch", "slices"])
class TestTransactions:
    """A commit is refused if a node has no room for it, and everything stays staged."""

    @pytest.fixture(autouse=True)
    def _way(self, many, monkeypatch):
        if many:
            monkeypatch.setattr(transactions, "MAX_WINNERS", 1)

    @pytest.mark.parametrize("queueing", [True, False])
    def test_the_winners_of_each_node_are_added_up(self, shell, queueing):
        shell.do(declares(JOBS, queueing=queueing, max_bytes=100))
        shell.do(a_queue(DEAD))
        shell.batch(puts("a", 40), stages("a", "b", payload=of(50)))
        shell.do(stages("other", node=DEAD, payload=of(99)))
        shell.do(stages("c", payload=of(10)))
        assert refusal(shell.do(commits((0, 0, 4)))) is Refusal.NODE_FULL
        shell.do(Configure(who(BOSS), JOBS, Settings({"max_bytes": 110})))
        assert not isinstance(shell.do(commits((0, 0, 4))), Refused)
        assert byte_count(shell) == 110

    def test_items_with_taken_ids_need_room_in_the_dead_letter_node(self, shell):
        shell.batch(a_queue(DEAD, max_bytes=89), a_queue(), joins(ANN, 9))
        shell.batch(puts("a", 40), puts("b", 40))
        shell.do(stages("a", "b", "c", payload=of(30)))
        shell.do(stages("own", node=DEAD, payload=of(30)))
        asked = {"on_taken": OnTaken.DEAD_LETTER, "dead_letter_node": DEAD}
        assert refusal(shell.do(commits((0, 0, 4), **asked))) is Refusal.NODE_FULL
        shell.do(Configure(who(BOSS), DEAD, Settings({"max_bytes": 90})))
        assert shell.do(commits((0, 0, 4), **asked)).taken == 2
        assert (byte_count(shell), byte_count(shell, DEAD)) == (110, 90)
