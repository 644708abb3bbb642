"""Groups that are sent ahead, compared with an oracle: the order of each group, whatever happens to its items.

Hypothesis chooses the actions. After each batch, what is in flight of a group has to be its first items, in order and with one
holder, and nothing is left that could be delivered. At the end everything can be done.
"""

import tempfile
from pathlib import Path

import pytest
from harness.batches.facts import JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell, TwoShells
from harness.depth import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, NodeName, State
from pubqueue.model.notices import Deliver, Unlocked
from pubqueue.rules.expire import Expire
from pubqueue.rules.presence import Departure, Leave
from pubqueue.rules.settle import Outcome
from pubqueue.rules.subscribe import Unsubscribe
from pubqueue.rules.take import Take

DEAD = NodeName("jobs-dead")
LIMIT, WINDOW = 4, 3
FAILURES = 3
WORKERS = tuple(map(Jid, ("ann@x/1", "bob@x/1", "cat@x/1")))

groups = st.sampled_from(["", "g", "g", "h", "i"])
counts = st.integers(1, 6)
picks = st.integers(0, 99)
workers = st.sampled_from(WORKERS)


class Ahead(RuleBasedStateMachine):
    """A queue, its workers, and programs that pull once."""

    is_alone = True
    """Whether one process delivers: with two, what the other publishes may wait until one of the group is done."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.shell = self.make_shell(Path(self.folder.name) / "queue.db")
        self.shell.batch(a_queue(DEAD))
        ahead = {"group_ahead": True, "group_limit": LIMIT, "max_failures": FAILURES}
        pauses = {"backoff_min": 5, "backoff_max": 5, "lock_timeout": 60}
        self.shell.batch(a_queue(dead_letter_node=DEAD, **ahead, **pauses))
        self.published = 0
        self.joined = set()
        self.failures = {}

    def make_shell(self, path):
        return Shell(path)

    def teardown(self):
        self.drain()
        self.shell.close()
        self.folder.cleanup()

    # --- one batch, and the oracle ------------------------------------------------------------------

    def do(self, *requests):
        before = {item.seq: item for item in self.items()}
        done = self.shell.batch(*requests)
        for decision in done.decisions:
            assert not isinstance(decision.reply, Refused), decision.reply
        while (then := done.decisions[0].then) is not None:
            done = self.shell.batch(then)
        sent = [one for one in done.deliveries if isinstance(one, Deliver)]
        sent += [one for each in done.taken.values() for one in each]
        self.in_order(sent)
        self.told(before, done, requests)
        if self.is_alone:
            self.nothing_is_left()
        return done

    def items(self):
        names = self.shell.look(lambda tx: tx.item_ids(JOBS, 10_000))
        return self.shell.look(lambda tx: [tx.item(JOBS, name) for name in names])

    def of_groups(self):
        found = {}
        for item in sorted(self.items(), key=lambda item: item.seq):
            if item.group:
                found.setdefault(item.group, []).append(item)
        return found

    def in_order(self, sent):
        """What is in flight are the first items of each group, in the order of their locks, with one holder."""
        for items in self.of_groups().values():
            flying = [item for item in items if item.holder is not None]
            assert flying == items[: len(flying)]
            assert [item.token for item in flying] == sorted(item.token for item in flying)
            assert len({item.holder for item in flying}) <= 1
            assert len(flying) <= LIMIT
        for name in {one.item.group for one in sent} - {""}:
            seqs = [one.item.seq for one in sent if one.item.group == name]
            assert seqs == sorted(seqs)

    def told(self, before, done, requests):
        """A lock that ends for the sake of an earlier item counts nothing, and its holder is told."""
        told = {
            (one.to, name)
            for one in done.deliveries
            if isinstance(one, Unlocked)
            for name in one.ids
        }
        meant = {name for one in requests for name in getattr(one, "ids", ())}
        for item in self.items():
            was = before.get(item.seq)
            lost = was is not None and was.holder is not None and item.token != was.token
            lost = lost or (was is not None and was.holder is not None and item.holder is None)
            if lost and item.id not in meant and not isinstance(requests[0], Expire | Leave):
                assert (was.holder, item.id) in told
                assert (item.failed, item.released) == (was.failed, was.released)

    def room(self):
        """Return how many items each worker may get."""
        found = {}
        for jid in self.joined:
            row = self.shell.look(lambda tx, jid=jid: tx.subscription(JOBS, jid))
            if row is not None and row.available:
                found[jid] = row.queue_requests - row.in_flight
        return found

    def nothing_is_left(self):
        """A group whose next item is free, and whose holder has room, has as many in flight as it may."""
        room = {jid: free for jid, free in self.room().items() if free > 0}
        for items in self.of_groups().values():
            flying = [item for item in items if item.holder is not None]
            rest = items[len(flying) :]
            if not rest or len(flying) == LIMIT or rest[0].state is not State.QUEUED:
                continue
            if flying:
                assert flying[0].holder not in room
            else:
                assert not room

    # --- actions ------------------------------------------------------------------------------------

    @rule(group=groups, count=counts, priority=st.integers(-1, 1))
    def publish(self, group, count, priority):
        names = [f"i{self.published + n}" for n in range(count)]
        self.published += count
        self.do(publishes(*names, group=group, priority=priority))

    @rule(jid=workers)
    def join(self, jid):
        if jid not in self.joined:
            self.joined.add(jid)
            self.do(joins(jid, WINDOW))

    @precondition(lambda self: self.joined)
    @rule(pick=picks, how=st.sampled_from([Departure.AWAY, Departure.LOST]))
    def leave(self, pick, how):
        jid = sorted(self.joined)[pick % len(self.joined)]
        self.joined.discard(jid)
        self.do(Leave(jid, how=how))

    @rule(count=counts, ahead=st.booleans())
    def pull(self, count, ahead):
        number = self.published = self.published + 1
        self.shell.takers.add(number)
        done = self.do(
            Take(who(f"dan@x/{number}"), JOBS, count, number=number, ahead=ahead, wait=1)
        )
        got = [one.item for one in done.taken.get(number, ())]
        if not ahead:
            of_group = [item.group for item in got if item.group]
            assert len(of_group) == len(set(of_group))
        self.shell.takers.discard(number)

    def held(self, pick):
        locked = [item for item in self.items() if item.holder is not None]
        return locked[pick % len(locked)] if locked else None

    @rule(pick=picks)
    def retract(self, pick):
        if (item := self.held(pick)) is not None:
            self.do(retracts(item.holder, item.id))

    @rule(pick=picks, outcome=st.sampled_from([Outcome.RELEASE, Outcome.FAILED, Outcome.REJECT]))
    def give_back(self, pick, outcome):
        if (item := self.held(pick)) is not None:
            self.do(unlocks(item.holder, item.id, outcome=outcome))

    @rule(pick=picks)
    def fail_and_retract_in_one_batch(self, pick):
        if (item := self.held(pick)) is None:
            return
        others = [i for i in self.items() if i.holder == item.holder and i.seq != item.seq]
        done = [retracts(item.holder, other.id) for other in others[:1]]
        self.do(*done, unlocks(item.holder, item.id, outcome=Outcome.FAILED))

    @rule(span=st.sampled_from([2, 6, 61]))
    def wait(self, span):
        self.shell.wait(span)
        self.do(Expire())

    def drain(self):
        """Everything can be done, in order."""
        for jid in sorted(self.joined):
            self.do(Unsubscribe(who(jid), JOBS, jid))
        self.joined = set()
        self.do(joins("eve@x/1", 9))
        last = {}
        for _ in range(400):
            items = self.items()
            if not items:
                return
            locked = [item for item in items if item.holder is not None]
            for item in sorted(locked, key=lambda item: item.token):
                if item.group:
                    assert last.get(item.group, 0) < item.seq
                    last[item.group] = item.seq
            if locked:
                for jid in {item.holder for item in locked}:
                    self.do(retracts(jid, *(item.id for item in locked if item.holder == jid)))
            else:
                self.wait(61)
        raise AssertionError(self.items())


TestAhead = Ahead.TestCase
TestAhead.settings = settings(max_examples=examples(12), stateful_step_count=30)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_two_instances(store, running_postgres):
    class OfTwo(Ahead):
        is_alone = False

        def make_shell(self, path):
            if store == "sqlite":
                return TwoShells(lambda: Shell(path))
            running_postgres.wipe()
            return TwoShells(lambda: PostgresShell(running_postgres.address))

        @initialize(turns=st.lists(st.integers(0, 1), min_size=5, max_size=5).map(tuple))
        def take_turns(self, turns):
            self.shell.take_turns(turns)

    how = settings(max_examples=examples(3), stateful_step_count=25)
    run_state_machine_as_test(OfTwo, settings=how)
