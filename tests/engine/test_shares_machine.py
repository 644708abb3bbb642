"""Fair shares, whatever happens: after each batch nothing is left that a worker with room could have, and groups keep their order.

Hypothesis chooses the actions. So few groups are remembered, and looked at in one step, that all the ways to find them are taken.
"""

import tempfile
from pathlib import Path

import pytest
from harness.batches.facts import BOSS, JOBS, who
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

from pubqueue.engine import shares
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, State
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.presence import Departure, Leave
from pubqueue.rules.settle import Outcome

WORKERS = tuple(map(Jid, ("ann@x/1", "bob@x/1", "cat@x/1")))
WINDOW = 2

picks = st.integers(0, 99)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    for name, number in {"MOST": 6, "FEWEST": 6, "SLICE": 2, "LOOKED_AT": 2, "PLACES": 2}.items():
        monkeypatch.setattr(shares, name, number)


class Fair(RuleBasedStateMachine):
    """A queue with fair shares, and its workers."""

    is_alone = True

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.shell = self.make_shell(Path(self.folder.name) / "queue.db")
        pauses = {"backoff_min": 5, "backoff_max": 5, "lock_timeout": 60, "max_failures": 3}
        self.shell.batch(a_queue(fair="group", **pauses))
        self.limit, self.published, self.joined = 1, 0, set()

    def make_shell(self, path):
        return Shell(path)

    def teardown(self):
        self.drain()
        self.shell.close()
        self.folder.cleanup()

    def do(self, *requests):
        done = self.shell.batch(*requests)
        for decision in done.decisions:
            assert not isinstance(decision.reply, Refused), decision.reply
        left = [one.then for one in done.decisions if one.then is not None]
        for _ in range(200):
            if not left and not done.rest:
                break
            done = self.shell.batch(*left, rest=done.rest)
            left = [one.then for one in done.decisions if one.then is not None]
        else:
            raise AssertionError("it never ends")
        self.in_order()
        if self.is_alone:
            self.nothing_is_left()

    def items(self):
        names = self.shell.look(lambda tx: tx.item_ids(JOBS, 10_000))
        return self.shell.look(lambda tx: [tx.item(JOBS, name) for name in names])

    def in_order(self):
        """Turns are given in the order of publishing, and no more than the highest limit so far."""
        of = {}
        for item in self.items():
            if item.group and item.state is not State.DEAD:
                of.setdefault(item.group, []).append(item)
        for line in of.values():
            with_turns = [item for item in line if item.turn]
            assert with_turns == line[: len(with_turns)]
            assert len(with_turns) <= 3

    def nothing_is_left(self):
        room = {}
        for jid in self.joined:
            row = self.shell.look(lambda tx, jid=jid: tx.subscription(JOBS, jid))
            if row is not None and row.available and row.in_flight < row.queue_requests:
                room[jid] = row
        free = sum(row.queue_requests - row.in_flight for row in room.values())
        aside = [item for item in self.items() if item.aside]
        for item in self.items():
            assert not room or item.state is not State.QUEUED or (item.group and not item.turn)
            assert not item.aside or len(aside) > free or not room.keys() - {item.avoid}

    # --- actions

    @rule(
        groups=st.lists(st.sampled_from("-ghijklmno"), min_size=1, max_size=8), urgent=st.booleans()
    )
    def publish(self, groups, urgent):
        names = [f"i{self.published + n}" for n in range(len(groups))]
        self.published += len(groups)
        self.do(
            *(
                publishes(name, group=group.strip("-"), priority=int(urgent))
                for name, group in zip(names, groups, strict=True)
            )
        )

    @rule(jid=st.sampled_from(WORKERS))
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

    @rule(limit=st.integers(1, 3), weights=st.sampled_from(["", "g=5\n=2"]), fair=st.booleans())
    def configure(self, limit, weights, fair):
        wanted = {"group_limit": limit, "weights": weights, "fair": "group" if fair else "off"}
        self.do(Configure(who(BOSS), JOBS, Settings(wanted)))

    @rule()
    def purge(self):
        self.do(Purge(who(BOSS), JOBS))

    @rule(span=st.sampled_from([1, 6, 61]))
    def wait(self, span):
        self.shell.wait(span)
        self.do(Expire())

    def drain(self):
        """Everything can be done."""
        self.joined.add("eve@x/1")
        self.do(joins("eve@x/1", 9))
        for _ in range(400):
            left = [item for item in self.items() if item.state is not State.DEAD]
            if not left:
                return
            locked = [item for item in left if item.holder is not None]
            for jid in {item.holder for item in locked}:
                self.do(retracts(jid, *(item.id for item in locked if item.holder == jid)))
            if not locked:
                self.wait(61)
        raise AssertionError(self.items())


def test_alone():
    how = settings(max_examples=examples(12), stateful_step_count=30)
    run_state_machine_as_test(Fair, settings=how)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_two_instances(store, running_postgres):
    class OfTwo(Fair):
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
