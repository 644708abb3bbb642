"""Rules and store together, against a model of the queue, in every order of events.

Hypothesis chooses what people do. After each step the store has to hold what the model says and what is
always true. A batch that is refused has to leave every row of every table as it was.
"""

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from harness.batches.facts import BOSS, ETL, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from harness.stores.replay import reported, there
from harness.stores.store_contents import ALL, misweighed, out_of_step, recount
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pubqueue.core import changes as c
from pubqueue.core.addresses import account_of
from pubqueue.core.decision import (
    Done,
    Published,
    Redriven,
    Refusal,
    Refused,
    Subscribed,
)
from pubqueue.core.lifecycle import GONE, NEXT, Transition
from pubqueue.core.model import ItemId, Jid, NodeName, State, mark_of
from pubqueue.core.nodes.manage import Configure, Delete, Purge
from pubqueue.core.nodes.nodeconfig import Settings
from pubqueue.core.nodes.subscriptions.subscribe import Options, SetOptions, Unsubscribe
from pubqueue.core.queue.expire import Arrive, Bounce, Expire, Leave
from pubqueue.core.queue.groups import in_line
from pubqueue.core.queue.redrive import Redrive
from pubqueue.core.queue.settle import Outcome
from pubqueue.core.queue.touch import Touch

DEAD = NodeName("jobs-dead")
WORKERS = ("ann@x/1", "bob@x/1", "bob@x/2", "cat@x")
PEOPLE = (*WORKERS, "cat@x/phone", ETL, BOSS, "eve@x/1")
NAMES = ("i1", "i2", "i3", "i4")
DEDUP = 30

workers = st.sampled_from(WORKERS).map(Jid)
people = st.sampled_from(PEOPLE).map(Jid)
nodes = st.sampled_from([JOBS, JOBS, DEAD])
names = st.lists(st.sampled_from(NAMES).map(ItemId), min_size=1, max_size=3, unique=True)
payloads = st.sampled_from([b"<one/>", b"<two/>"])
windows = st.integers(1, 3)
picks = st.integers(0, 9)


def lived(change):
    """Return what a change of an item is in its life, and what state it leads to."""
    match change:
        case c.RemoveItem():
            return Transition.RETRACT, GONE
        case c.Release(failed=failed, item=item):
            return (Transition.FAIL if failed > item.failed else Transition.RELEASE), State.QUEUED
        case c.GiveUp():
            return Transition.GIVE_UP, State.DEAD
        case c.Revive():
            return Transition.REVIVE, State.QUEUED
    return None


class Queue(RuleBasedStateMachine):
    """A queue with its dead-letter node, workers, a publisher, an owner and somebody else."""

    of_two = False

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.shell = self.make_shell(Path(self.folder.name) / "queue.db")
        self.token = 0
        # The model: work that was confirmed and has not rightly gone, by its sequence number, and
        # the ids of finished work that still absorb a publish.
        self.work: dict[int, bytes] = {}
        self.finished: dict[ItemId, tuple[bytes, int]] = {}
        # How often each was handed out, and how often that ended badly, in its present life.
        self.acquired: Counter[int] = Counter()
        self.failed: Counter[int] = Counter()
        # How many turns of each group may be under way: those of its node's limit, or of a higher one before.
        self.most: Counter[tuple[NodeName, str]] = Counter()
        self.lines: dict[tuple[NodeName, str], set[int]] = {}

    def make_shell(self, path):
        return Shell(path)

    def teardown(self):
        self.shell.close()
        self.folder.cleanup()

    # --- one batch -----------------------------------------------------------------------------------

    def do(self, *requests):
        """Do the requests in one batch, hold everything about it against the rules, return replies."""
        replies = [decision.reply for decision in self.step(*requests)]
        return replies if len(replies) > 1 else replies[0]

    def step(self, *requests):
        """The same, and return the decisions."""
        before, locked = self.shell.dump(), self.holders()
        silent = self.any_silent(requests)
        outcome = self.shell.batch(*requests)
        replies = [decision.reply for decision in outcome.decisions]
        if not silent and all(isinstance(reply, Refused) for reply in replies):
            assert self.shell.dump() == before
        assert Refused(Refusal.INTERNAL_FAULT) not in replies
        for decision in outcome.decisions:
            for change in decision.changes:
                if (step := lived(change)) is not None:
                    event, after = step
                    assert NEXT[change.item.state, event] == after
                    locked.pop(change.item.seq, None)
                    self.count(change, event)
        for notice in outcome.deliveries:
            self.delivered(notice, locked)
        self.settle_groups(outcome)
        return outcome.decisions

    def any_silent(self, requests):
        """Say whether a silent worker asks: it is heard of, even if it is refused, and may have items again."""
        asking = [one for one in requests if hasattr(one, "by") and hasattr(one, "node")]
        keys = {(one.node, jid) for one in asking for jid in (one.by.jid, one.by.account)}
        rows = [self.shell.look(lambda tx, key=key: tx.subscription(*key)) for key in keys]
        return any(row is not None and row.unanswered for row in rows)

    def settle_groups(self, outcome):
        """Turns come in the order of publish, and no more than may; a limit that was lowered waits for those to end."""
        for notice in outcome.deliveries:
            assert not notice.item.group or notice.item.turn
        turns = self.turns()
        for group in {*turns, *self.most}:
            limit = self.limit(group[0])
            most = max(limit, self.most[group])
            assert turns[group] <= most
            self.most[group] = max(limit, min(most, turns[group]))
        items = {item.seq: item for item in self.items()}
        for line in self.lines.values():
            known = [items[seq] for seq in line if seq in items]
            taken = [item.seq for item in known if item.turn]
            left = [item.seq for item in known if in_line(item)]
            assert not taken or not left or max(taken) < min(left)
        self.note_lines(items.values())

    def note_lines(self, items):
        self.lines = {}
        for item in items:
            if in_line(item):
                self.lines.setdefault((item.node, item.group), set()).add(item.seq)

    def turns(self):
        return Counter((item.node, item.group) for item in self.items() if item.turn)

    def limit(self, node):
        known = self.shell.look(lambda tx: tx.node(node))
        return 0 if known is None else known.config.group_limit

    def count(self, change, event):
        """A failure counts; a new life, after a death or in the dead-letter node, begins with none."""
        seq = change.item.seq
        if event is Transition.FAIL:
            self.failed[seq] += 1
        elif event in {Transition.RETRACT, Transition.REVIVE} or (
            event is Transition.GIVE_UP and change.to
        ):
            self.begins(seq)
        elif event is Transition.GIVE_UP:
            assert change.failed - self.failed[seq] in {0, 1}  # a life that ends has not failed
            self.failed[seq] = change.failed

    def begins(self, seq):
        """A sequence number may come again when its item, the newest, is gone."""
        self.acquired[seq] = self.failed[seq] = 0

    def delivered(self, notice, locked):
        """A delivery is of work that is there and that nobody else holds, under a new token."""
        item = notice.item
        assert not self.shell.look(lambda tx: tx.node(item.node)).config.paused
        self.acquired[item.seq] += 1
        assert item.token > self.token
        self.token = item.token
        assert item.seq not in locked
        assert self.stored(item.node, item.id) == item
        assert notice.to == item.holder
        assert notice.payload == self.shell.look(lambda tx: tx.payload(item))
        holder = self.shell.look(lambda tx: tx.subscription(item.node, notice.to))
        assert holder.in_flight <= holder.queue_requests

    def holders(self):
        return {item.seq: item.holder for item in self.items() if item.holder is not None}

    def stored(self, node, name):
        return self.shell.look(lambda tx: tx.item(node, name))

    def items(self):
        return self.shell.look(
            lambda tx: [
                tx.item(node.name, name)
                for node in tx.nodes()
                for name in tx.item_ids(node.name, ALL)
            ]
        )

    @property
    def there(self):
        return self.shell.look(lambda tx: tx.node(JOBS)) is not None

    # --- publishers ----------------------------------------------------------------------------------

    @initialize()
    def begin(self):
        self.do(a_queue(DEAD, event_log=1))
        self.create()
        for worker in WORKERS[:2]:
            self.do(joins(worker, 2))

    @precondition(lambda self: not self.there)
    @rule()
    def create(self):
        self.closed = False
        times = {"lock_timeout": 60, "backoff_min": 1, "backoff_max": 4, "dedup_window": DEDUP}
        self.do(a_queue(max_failures=2, dead_letter_node=DEAD, event_log=1, **times))

    @rule(
        names=names,
        payload=payloads,
        delay=st.sampled_from([0, 0, 0, 5]),
        more=st.sampled_from(
            [{}, {}, {"ttl": 5}, {"priority": 3}, {"group": "g"}, {"group": "h", "priority": 3}]
        ),
    )
    def publish(self, names, payload, delay, more):
        busy = self.closed or any(self.taken(name, payload) for name in names)
        absorbed = [name for name in names if self.absorbs(name, payload)]
        reply = self.do(publishes(*names, payload=payload, delay=delay, **more))
        assert isinstance(reply, Published) == (self.there and not busy)
        if isinstance(reply, Published):
            self.confirmed(names, payload)
            assert [name for name in absorbed if self.stored(JOBS, name)] == []

    def absorbs(self, name, payload):
        done, until = self.finished.get(name, (None, 0))
        return self.stored(JOBS, name) is None and done == payload and until > self.shell.now

    @rule(names=names, payload=payloads)
    def publish_one_by_one_in_a_batch(self, names, payload):
        replies = self.do(*(publishes(name, payload=payload) for name in [*names, names[0]]))
        for name, reply in zip(names, replies, strict=False):
            if isinstance(reply, Published):
                self.confirmed([name], payload)

    def taken(self, name, payload):
        """Somebody works on another payload under this name, or it is dead."""
        item = self.stored(JOBS, name)
        stays = item is not None and (item.holder is not None or item.state is State.DEAD)
        return stays and self.work[item.seq] != payload

    def confirmed(self, names, payload):
        for name in names:
            item = self.stored(JOBS, name)
            if item is None:
                done, until = self.finished[name]
                assert (done, until > self.shell.now) == (payload, True)
            else:
                self.work[item.seq] = payload

    @rule(names=names)
    def publish_without_the_right(self, names):
        assert isinstance(self.do(publishes(*names, by="eve@x/1")), Refused)

    # --- workers -------------------------------------------------------------------------------------

    @rule(worker=workers, requests=windows, node=nodes)
    def subscribe(self, worker, requests, node):
        reply = self.do(joins(worker, requests, node=node))
        assert isinstance(reply, Subscribed) == (node == DEAD or self.there)
        if isinstance(reply, Subscribed):
            most = self.shell.look(lambda tx: tx.node(node)).config.max_queue_requests
            assert reply.subscription.queue_requests == min(requests, most)

    @rule(by=people, node=nodes, names=names)
    def retract(self, by, node, names):
        known = [self.stored(node, name) for name in names]
        may = all(self.may_retract(by, item) for item in known)
        assert isinstance(self.do(retracts(by, *names, node=node)), Refused) != may
        for item in known if may else ():
            self.done(item, finished=item.holder in {by, account_of(by)})

    def done(self, item, *, finished):
        """Only what its holder retracts is finished; the others have withdrawn it."""
        payload = self.work.pop(item.seq)
        if finished and item.node == JOBS:
            self.finished[item.id] = payload, self.shell.now + DEDUP * 1000

    def may_retract(self, by, item):
        """Its holder may; nobody who has lost it; then the owner and the publisher."""
        if item is None or item.holder in {by, account_of(by)}:
            return item is not None
        lost = self.shell.look(lambda tx: tx.lost_by(item, (by, account_of(by))))
        return by in {BOSS, ETL} and not lost

    @rule(by=people, node=nodes, names=names, outcome=st.none() | st.sampled_from(Outcome))
    def unlock_or_touch(self, by, node, names, outcome):
        known = [self.stored(node, name) for name in names]
        may = all(item is not None and item.holder in {by, account_of(by)} for item in known)
        unlock = unlocks(by, *names, node=node, outcome=outcome)
        touch = Touch(who(by), node, tuple(names))
        assert isinstance(self.do(touch if outcome is None else unlock), Refused) != may

    @precondition(lambda self: self.holders())
    @rule(pick=picks)
    def finish(self, pick):
        item = self.picked(pick)
        assert self.do(retracts(item.holder, item.id, node=item.node)) == Done()
        self.done(item, finished=True)

    @precondition(lambda self: self.holders())
    @rule(pick=picks, outcome=st.sampled_from(Outcome), delay=st.sampled_from([None, 2000]))
    def let_go(self, pick, outcome, delay):
        item = self.picked(pick)
        request = unlocks(item.holder, item.id, node=item.node, outcome=outcome, delay=delay)
        assert self.do(request) == Done()

    @precondition(lambda self: self.holders())
    @rule(pick=picks)
    def hold_on(self, pick):
        item = self.picked(pick)
        reply = self.do(Touch(who(item.holder), item.node, (item.id,)))
        assert reply.entries[0][1] >= item.deadline

    @precondition(lambda self: self.holders())
    @rule(pick=picks, late=st.integers(0, 1), gone=st.booleans(), ours=st.booleans())
    def bounce(self, pick, late, gone, ours):
        item = self.picked(pick)
        under = self.shell.look(lambda tx: tx.subscription(item.node, item.holder))
        mark = mark_of(under.subid) if ours and under else "another"
        token = item.token - late
        heard_of = self.shell.look(lambda tx: tx.heard_of(item.holder))
        self.do(Bounce(item.holder, item.seq, token, gone, bounced=True, mark=mark))
        after = self.stored(item.node, item.id)
        assert after.failed == item.failed
        assert late == 0 or after == item
        now = self.shell.look(lambda tx: tx.subscription(item.node, item.holder))
        ends = gone and ours and late == 0 and token >= heard_of
        assert (now is None) == (under is None or ends)

    @rule(worker=workers, pick=picks)
    def come_too_late(self, worker, pick):
        """Who has lost an item and asks for it: never, whatever else is true of them."""
        lost = [i for i in self.items() if self.has_lost(worker, i)]
        if lost:
            item = lost[pick % len(lost)]
            assert isinstance(self.do(retracts(worker, item.id, node=item.node)), Refused)

    def has_lost(self, worker, item):
        jids = (worker, account_of(worker))
        return item.holder not in jids and self.shell.look(lambda tx: tx.lost_by(item, jids))

    def picked(self, pick):
        """Return one of the locked items."""
        locked = [item for item in self.items() if item.holder is not None]
        return locked[pick % len(locked)]

    @rule(worker=workers, node=nodes, requests=windows, how=st.sampled_from(["go", "shut", *"123"]))
    def come_or_go(self, worker, node, requests, how):
        request = {
            "go": Unsubscribe(who(worker), node, worker),
            "shut": Leave(worker),
            "1": Arrive(worker),
        }
        self.do(request.get(how, SetOptions(who(worker), node, worker, None, Options(requests))))

    # --- owners, and time ----------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 1, 5, 61]))
    def time_passes(self, seconds):
        self.shell.wait(seconds)
        for _ in range(
            2
        ):  # a lock may end in the first round and, now free, the life in the second
            assert self.do(Expire()) == Done()
        moment = self.shell.look(lambda tx: tx.next_due())
        assert moment is None or moment > self.shell.now

    @rule(by=st.sampled_from([BOSS, ETL]), names=st.none() | names.map(tuple))
    def redrive(self, by, names):
        reply = self.do(Redrive(who(by), DEAD, names))
        assert isinstance(reply, Redriven | Refused)
        assert by == BOSS or isinstance(reply, Refused)

    @rule(
        node=nodes,
        by=people,
        field=st.sampled_from(["paused", "publish_paused"]),
        on=st.sampled_from("0011"),
    )
    def pause_or_resume(self, node, by, field, on):
        reply = self.do(Configure(who(by), node, Settings({field: on})))
        assert isinstance(reply, Done) == (by == BOSS and (node == DEAD or self.there))
        if isinstance(reply, Done) and node == JOBS and field == "publish_paused":
            self.closed = on == "1"

    @rule(node=nodes, most=st.integers(1, 4))
    def bound_the_windows(self, node, most):
        self.do(Configure(who(BOSS), node, Settings({"max_queue_requests": most})))

    @rule(node=nodes, limit=st.integers(1, 3))
    def bound_the_groups(self, node, limit):
        before = self.turns()
        slice_ = Configure(who(BOSS), node, Settings({"group_limit": limit}))
        while slice_ is not None:
            (decision,) = self.step(slice_)
            slice_ = decision.then
        assert all(self.turns()[group] >= turns for group, turns in before.items())
        self.note_lines(self.items())

    @rule(by=people, kind=st.sampled_from([Purge, Delete]))
    def purge_or_delete(self, by, kind):
        gone = {item.seq for item in self.items() if item.node == JOBS}
        may = by == BOSS and self.there
        assert isinstance(self.do(kind(who(by), JOBS)), Refused) != may
        if may:
            for seq in gone:
                self.begins(seq)
            self.work = {seq: payload for seq, payload in self.work.items() if seq not in gone}
            self.finished = self.finished if kind is Purge else {}

    # --- what is always true -------------------------------------------------------------------------

    @invariant()
    def what_was_confirmed_is_there_and_what_has_gone_does_not_come_back(self):
        found = self.shell.look(lambda tx: {i.seq: tx.payload(i) for i in self.seen(tx)})
        assert found == self.work

    def seen(self, tx):
        return [tx.item(n.name, i) for n in tx.nodes() for i in tx.item_ids(n.name, ALL)]

    @invariant()
    def the_event_log_tells_what_is_there(self):
        assert self.shell.look_within(reported) == self.shell.look_within(there)

    @invariant()
    def events_are_numbered_without_a_gap(self):
        _, newest = self.shell.look(lambda tx: tx.log_ends())
        assert self.shell.event_numbers() == list(range(1, newest + 1))

    @invariant()
    def an_item_is_in_one_state_and_has_a_holder_exactly_while_it_is_locked(self):
        for item in self.items():
            assert (item.holder is not None) == (item.state is State.LOCKED)
            assert (item.deadline is not None) == (item.state is State.LOCKED)
            assert item.token <= self.token
            assert item.state is State.DEAD or item.failed < 2 or item.node == DEAD

    @invariant()
    def both_counters_say_what_has_happened(self):
        for item in self.items():
            assert item.acquired == self.acquired[item.seq]
            assert item.failed == self.failed[item.seq]

    @invariant()
    def counts_equal_a_recount_and_tokens_only_rise(self):
        looks = [recount, misweighed]
        if not self.of_two:  # what one of two remembers is dropped when its next batch begins
            looks.append(partial(out_of_step, self.shell.rows.cache))
        for look in looks:
            assert self.shell.look_within(look) == []
        assert self.shell.next_token() > self.token

    @invariant()
    def of_a_group_the_first_in_line_have_their_turns(self):
        groups = {}
        for item in self.items():
            assert not item.turn or (item.group and item.state is not State.DEAD)
            assert item.turn or not item.group or item.state is not State.LOCKED
            if item.group:
                groups.setdefault((item.node, item.group), []).append(item)
        for (node, _), items in groups.items():
            turns = sum(item.turn > 0 for item in items)
            assert not any(map(in_line, items)) or turns >= self.limit(node)

    @invariant()
    def nothing_waits_while_somebody_could_have_it(self):
        for node in (JOBS, DEAD):
            known = self.shell.look(lambda tx, n=node: tx.node(n))
            if known is None or known.config.paused:
                continue
            free = self.shell.look(lambda tx, n=node: tx.with_room(n))
            free = {jid for jid in free if not self.shell.holds_back(node, jid)}
            for item in self.shell.look(lambda tx, n=node: tx.ready(n, self.shell.now)):
                assert free <= ({item.avoid} if item.aside else set())


TestQueue = Queue.TestCase
if settings.get_current_profile_name() == "explore":
    TestQueue.settings = settings(max_examples=300, stateful_step_count=200)
else:
    TestQueue.settings = settings(max_examples=30, stateful_step_count=40)
