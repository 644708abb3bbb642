"""Transactions compared with a model of ten lines, in every order of events.

Tasks stage anything, any number of times; drivers commit, abort and repeat. A plain publisher and a worker take part
too. The visible items are the winners, each once, and no row stays behind.
"""

import tempfile
from functools import partial
from pathlib import Path

import pytest
from harness.batches.facts import ANN, JOBS
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import aborts, commits, in_slices, left_over, stages
from harness.depth import examples
from harness.stores.replay import reported, there
from harness.stores.store_contents import misweighed, out_of_step, recount
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from pubqueue.engine.facts.transactions import usage
from pubqueue.model.decision import Done, Published, Refusal, Refused
from pubqueue.model.entities import NodeName, State, seconds
from pubqueue.model.transactions import Committed, Limits, OnTaken, Skipped, TakenId
from pubqueue.rules.expire import Expire

MORE, LOST = NodeName("more"), NodeName("lost")
DAY = 86_400

apps = st.sampled_from(["one", "two"])
versions = st.integers(0, 2)
parts = st.integers(0, 1)
attempts = st.integers(0, 2)
nodes = st.sampled_from([JOBS, MORE])
places = st.tuples(parts, attempts, nodes)
names = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
choices = st.sampled_from([OnTaken.FAIL, OnTaken.FAIL, OnTaken.SKIP, OnTaken.DEAD_LETTER])
payloads = st.sampled_from([b"<one/>", b"<two/>"])


class Transactions(RuleBasedStateMachine):
    of_two = False

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.shell = self.make_shell(Path(self.folder.name) / "queue.db")
        self.shell.limits = Limits(staged_for=seconds(DAY))
        for node in (JOBS, MORE, LOST):
            self.shell.do(a_queue(node, lock_timeout=10 * DAY, event_log=1))
        # The model: what is visible; what is staged, by version and then attempt; how far each app is.
        self.seen = {}
        self.staged = {}
        self.last = {}
        self.locked = set()

    def make_shell(self, path):
        return Shell(path)

    def teardown(self):
        self.shell.close()
        self.folder.cleanup()

    def over(self, app, version):
        return version <= self.last.get(app, -1)

    @rule(app=apps, version=versions, at=places, names=names, payload=payloads)
    def stage(self, app, version, at, names, payload):
        part, attempt, node = at
        mark = {"app": app, "version": version, "part": part, "attempt": attempt}
        reply = self.shell.do(stages(*names, node=node, payload=payload, **mark))
        assert isinstance(reply, Skipped if self.over(app, version) else Published)
        if isinstance(reply, Published):
            rows = self.staged.setdefault((app, version), {}).setdefault((part, attempt), {})
            rows.update({(node, name): payload for name in names})

    @rule(
        app=apps,
        version=versions,
        winners=st.dictionaries(parts, attempts),
        short=st.integers(0, 9),
        choice=choices,
    )
    def commit(self, app, version, winners, short, choice):
        """Commit, sometimes with a count that is wrong by one. Each commit has its own time."""
        self.shell.wait(0.001)
        staged = self.staged.get((app, version), {})
        won = {part: staged.get((part, attempt), {}) for part, attempt in winners.items()}
        wrong = 1 if winners and not short else 0
        named = [(part, winners[part], len(rows) + wrong) for part, rows in won.items()]
        before = self.shell.dump()
        lost = LOST if choice is OnTaken.DEAD_LETTER else None
        asked = {"on_taken": choice, "dead_letter_node": lost}
        reply = self.shell.do(commits(*named, app=app, version=version, **asked))
        if self.over(app, version):
            assert reply.already
            return
        items = {place: rows[place] for _, rows in sorted(won.items()) for place in rows}
        taken = {p for p in items.keys() & self.locked if self.seen[p] != items[p]}
        clash = taken and choice is OnTaken.FAIL
        nothing = staged and not winners
        assert isinstance(reply, Refused) == bool(wrong or clash or nothing)
        if isinstance(reply, Refused):
            expected = {Refusal.NOT_AS_STAGED, Refusal.ITEM_LOCKED}
            assert reply.refusal in expected
            assert self.shell.dump() == before
            return
        rows = sum(map(len, won.values()))
        same = sum(self.seen.get(place) == payload for place, payload in items.items())
        known = same + rows - len(items)
        published = rows - known - len(taken)
        assert set(reply.named) == {TakenId(*place, State.LOCKED) for place in taken}
        bare = replace(reply, named=())
        assert bare == Committed(version, published, known, already=False, taken=len(taken))
        for node, name in taken:
            payload = items.pop((node, name))
            if lost:
                items[LOST, f"{node}/{name}.{self.shell.now}"] = payload
        self.seen.update(items)
        self.last[app] = version
        self.staged = {
            key: rows for key, rows in self.staged.items() if key[0] != app or key[1] > version
        }

    @rule(app=apps, version=versions)
    def abort(self, app, version):
        assert self.shell.do(aborts(app=app, version=version)) == Done()
        self.staged.pop((app, version), None)

    @rule(app=apps, version=versions, at=st.lists(st.tuples(parts, attempts), min_size=1))
    def abort_attempts(self, app, version, at):
        assert self.shell.do(aborts(*at, app=app, version=version)) == Done()
        there = self.staged.get((app, version), {})
        for attempt in at:
            there.pop(attempt, None)
        if not there:
            self.staged.pop((app, version), None)

    @rule(node=nodes, names=names, payload=payloads)
    def publish(self, node, names, payload):
        places = [(node, name) for name in names]
        clash = any(self.seen[p] != payload for p in places if p in self.locked)
        reply = self.shell.do(publishes(*names, node=node, payload=payload))
        assert isinstance(reply, Refused) == clash
        if not clash:
            self.seen.update(dict.fromkeys(places, payload))

    @rule(node=nodes)
    def work(self, node):
        """Take all items, finish half of them, hold the rest."""
        self.shell.do(joins(ANN, 99, node=node))
        self.locked |= {place for place in self.seen if place[0] == node}
        for place in sorted(self.locked & {p for p in self.seen if p[0] == node})[::2]:
            assert self.shell.do(retracts(ANN, place[1], node=node)) == Done()
            del self.seen[place]
            self.locked.discard(place)

    @rule(days=st.sampled_from([0.001, 1.1]))
    def time_passes(self, days):
        self.shell.wait(days * DAY)
        self.shell.do(Expire())
        if days > 1:
            self.staged.clear()

    @invariant()
    def what_is_visible_is_what_was_published_or_won(self):
        held = set()
        found = {}
        for node in (JOBS, MORE, LOST):
            for item, payload in self.shell.look(lambda tx, n=node: tx.contents(n)):
                found[node, item.id] = payload
                held |= {(node, item.id)} if item.holder else set()
        assert found == self.seen
        self.locked = held
        looks = [recount, misweighed]
        if not self.of_two:  # what one of two remembers is dropped when its next batch begins
            looks.append(partial(out_of_step, self.shell.rows.cache))
        for look in looks:
            assert self.shell.look_within(look) == []

    @invariant()
    def the_event_log_tells_what_is_there(self):
        assert self.shell.look_within(reported) == self.shell.look_within(there)

    @invariant()
    def what_is_staged_is_counted_and_what_is_not_leaves_no_row(self):
        waiting = self.shell.look(lambda tx: usage(tx, "etl@x"))
        rows = [
            row
            for attempts in self.staged.values()
            for tries in attempts.values()
            for row in tries.values()
        ]
        assert (waiting.account_items, waiting.account_bytes) == (len(rows), sum(map(len, rows)))
        assert (waiting.items, waiting.bytes) == (len(rows), sum(map(len, rows)))

    @invariant()
    def a_sweep_leaves_only_what_is_open(self):
        if not self.staged:
            while self.shell.look(lambda tx: tx.is_sweepable()):
                self.shell.do(Expire())
            assert left_over(self.shell) == 0


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(8), stateful_step_count=40)


class InSlices(Transactions):
    """The same, with every commit too large for one batch: each slice moves one winner."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        in_slices(self.patch)

    def teardown(self):
        self.patch.undo()
        super().teardown()


TestInSlices = InSlices.TestCase
TestInSlices.settings = settings(max_examples=examples(8), stateful_step_count=40)
