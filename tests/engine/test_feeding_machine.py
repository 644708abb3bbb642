"""A plain node and the queues that it feeds, compared with a model of their contents, under any sequence of actions."""

import tempfile
from pathlib import Path

from harness.batches.both_shells import BothShells
from harness.batches.facts import ANN, BOSS, EVE, who
from harness.batches.queue_requests import joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import aborts, commits, committed, stages
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

from pubqueue.model.decision import Done, Published, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, NodeName, account_of, digest
from pubqueue.rules.declare import Declare
from pubqueue.rules.feed import elsewhere
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete, SetAffiliations

NEWS = NodeName("news")
QUEUES = tuple(map(NodeName, "abc"))
KIND = (("kind", "x"),)

queues = st.sampled_from(QUEUES)
names = st.lists(st.sampled_from(["i1", "i2", "i3"]), min_size=1, max_size=3, unique=True)
payloads = st.sampled_from([b"<one/>", b"<two/>"])


class Feeding(RuleBasedStateMachine):
    """The boss owns the plain node, eve the queues; ann works in each of them, an item at a time."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.shell = self.make_shell(Path(self.folder.name) / "queue.db")
        self.version = 0
        # The model: which queues are fed, what they ask for, what is in each node, and what ann holds there.
        self.fed: list[NodeName] = []
        self.filtered: set[NodeName] = set()
        self.limits: dict[NodeName, int] = {}
        self.items: dict[NodeName, dict[ItemId, bytes]] = {}
        self.held: set[tuple[NodeName, ItemId]] = set()

    def make_shell(self, path):
        return Shell(path)

    def teardown(self):
        self.shell.close()
        self.folder.cleanup()

    def do(self, request):
        """Do all slices of a request, record the deliveries, and return its reply."""
        while True:
            done = self.shell.batch(request)
            self.held |= {(notice.item.node, notice.item.id) for notice in done.deliveries}
            (decision,) = done.decisions
            if decision.then is None:
                assert decision.reply != Refused(Refusal.INTERNAL_FAULT)
                return decision.reply
            request = decision.then

    def configure(self, node, **wanted):
        return self.do(Configure(who(EVE), node, Settings(wanted)))

    @initialize()
    def begin(self):
        self.make_topic()
        for queue in QUEUES:
            self.make_queue(queue, is_fed=True)

    def make_topic(self):
        wanted = Settings({"queueing": False, "access_model": "open"})
        # whoever makes the queues publishes here too, so that they may refuse; the others are in `test_guests`
        publishers = Jid("etl@x"), account_of(Jid(EVE))
        self.do(Declare(who(BOSS, admin=True), NEWS, wanted, (Jid("boss@x"),), publishers))
        self.items[NEWS] = {}

    def make_queue(self, queue, *, is_fed):
        wanted = {"queueing": True, "access_model": "open", "source": NEWS if is_fed else ""}
        self.do(Create(who(EVE, local=True), queue, Settings(wanted)))
        self.do(joins(ANN, 1, node=queue))
        self.items[queue] = {}
        self.fed += [queue] if is_fed else []

    # --- publishes ----------------------------------------------------------------------------------

    def after(self, names, payload, headers):
        """Return the contents of each node after a publish, or the first queue that has no room."""
        after = {NEWS: self.items[NEWS] | dict.fromkeys(map(ItemId, names), payload)}
        for queue in self.fed:
            if queue in self.filtered and not headers:
                continue
            there = dict(self.items[queue])
            for name in map(ItemId, names):
                if (queue, name) in self.held and there[name] != payload:
                    there.setdefault(elsewhere(name, digest(payload)), payload)
                else:
                    there[name] = payload
            limit = self.limits.get(queue)
            if limit is not None and len(there) > max(limit, len(self.items[queue])):
                return queue
            after[queue] = there
        return after

    @rule(names=names, payload=payloads, headers=st.sampled_from([(), KIND]))
    def publish(self, names, payload, headers):
        after, before = self.after(names, payload, headers), self.shell.dump()
        reply = self.do(publishes(*names, node=NEWS, payload=payload, headers=headers))
        if isinstance(after, str):
            assert reply.refusal is Refusal.NODE_FULL
            assert reply.reason.startswith(f"'news' feeds the queue '{after}': ")
            assert self.shell.dump() == before
        else:
            assert isinstance(reply, Published)
            self.items |= after

    @rule(names=names, payload=payloads, headers=st.sampled_from([(), KIND]))
    def publish_in_a_transaction(self, names, payload, headers):
        self.version += 1
        said = {"node": NEWS, "payload": payload, "headers": headers, "version": self.version}
        self.do(stages(*names, **said))
        after = self.after(names, payload, headers)
        reply = self.do(commits((0, 0, len(names)), version=self.version))
        if isinstance(after, str):
            assert reply.refusal is Refusal.NODE_FULL
            self.do(aborts(version=self.version))
        else:
            assert reply == committed(len(names), version=self.version)
            self.items |= after

    @rule(queue=queues, name=names, payload=payloads)
    def publish_to_a_queue_itself(self, queue, name, payload):
        """Its owner may: what feeds it finds the ids there."""
        there, name = self.items[queue], ItemId(name[0])
        limit = self.limits.get(queue)
        full = name not in there and limit is not None and len(there) + 1 > limit
        busy = (queue, name) in self.held and there[name] != payload
        reply = self.do(publishes(name, node=queue, payload=payload, by=EVE))
        assert isinstance(reply, Refused) is (full or busy)
        if not (full or busy):
            there[name] = payload

    @rule(queue=queues)
    def finish(self, queue):
        for node, name in sorted(self.held):
            if node == queue:
                self.held.remove((node, name))
                del self.items[node][name]
                assert self.do(retracts(ANN, name, node=node)) == Done()
                return

    # --- owners -------------------------------------------------------------------------------------

    @rule(queue=queues, on=st.booleans())
    def feed_or_not(self, queue, on):
        assert self.configure(queue, source=NEWS if on else "") == Done()
        if on is not (queue in self.fed):
            self.fed = [*self.fed, queue] if on else [one for one in self.fed if one != queue]

    @rule(queue=queues, on=st.booleans())
    def filter_or_not(self, queue, on):
        self.configure(queue, filter="headers:kind" if on else "")
        self.filtered = self.filtered | {queue} if on else self.filtered - {queue}

    @rule(queue=queues, most=st.sampled_from([None, 1, 3]))
    def bound(self, queue, most):
        self.configure(queue, max_items=most)
        self.limits.pop(queue, None)
        if most is not None:
            self.limits[queue] = most

    @rule(queue=queues, is_fed=st.booleans())
    def delete_a_queue(self, queue, is_fed):
        self.do(Delete(who(EVE), queue))
        self.held = {one for one in self.held if one[0] != queue}
        self.fed = [one for one in self.fed if one != queue]
        self.limits.pop(queue, None)
        self.filtered.discard(queue)
        self.make_queue(queue, is_fed=is_fed)

    @rule()
    def delete_the_plain_node(self):
        self.do(Delete(who(BOSS), NEWS))
        self.fed = []
        self.make_topic()

    @rule()
    def bar_and_admit(self):
        for role in (Affiliation.OUTCAST, Affiliation.NONE):
            self.do(SetAffiliations(who(BOSS), NEWS, ((Jid("eve@x"), role),)))
        self.fed = []

    # --- what always holds --------------------------------------------------------------------------

    @invariant()
    def each_node_has_what_it_should(self):
        for node, items in self.items.items():
            found = self.shell.look(lambda tx, n=node: {i.id: p for i, p in tx.contents(n)})
            assert found == items

    @invariant()
    def settings_and_the_list_say_the_same(self):
        if NEWS not in self.items:
            return
        topic = self.shell.look(lambda tx: tx.node(NEWS))
        assert [feed.queue for feed in topic.config.feeds] == self.fed
        for queue in self.items.keys() - {NEWS}:
            node = self.shell.look(lambda tx, q=queue: tx.node(q))
            assert node.config.source == (NEWS if queue in self.fed else "")

    @invariant()
    def counts_equal_a_recount(self):
        assert self.shell.look_within(recount) == self.shell.look_within(misweighed) == []


TestFeeding = Feeding.TestCase
TestFeeding.settings = settings(max_examples=examples(5), stateful_step_count=30)


def test_on_both_stores(running_postgres):
    class OnBoth(Feeding):
        def make_shell(self, path):
            running_postgres.wipe()
            return BothShells(Shell(path), PostgresShell(running_postgres.address))

    run_state_machine_as_test(
        OnBoth, settings=settings(max_examples=examples(3), stateful_step_count=25)
    )


class InSlices(Feeding):
    """No queue has a limit, because in slices existing items of a queue are counted as new (decision 114)."""

    bound = None


def test_a_publish_in_slices_does_what_one_in_a_single_commit_does(monkeypatch):
    monkeypatch.setattr("pubqueue.rules.feed.MAX_COPIES", 3)
    monkeypatch.setattr("pubqueue.engine.facts.publishing.SLICE", 2)
    monkeypatch.setattr("pubqueue.engine.facts.publishing.JUDGED", 2)
    run_state_machine_as_test(
        InSlices, settings=settings(max_examples=examples(4), stateful_step_count=30)
    )
