"""Rules and store together, compared with a model of the queue, in every order of events.

Hypothesis chooses the actions. After each step the store has to match the model and the invariants. A refused batch has
to leave every row of every table unchanged.
"""

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from harness.batches.facts import BOSS, ETL, JOBS, who
from harness.batches.queue_requests import (
    a_queue,
    holds,
    joins,
    publishes,
    retracts,
    settles_each,
    signals,
    unlocks,
)
from harness.batches.shell import Shell
from harness.stores.replay import reported, there
from harness.stores.store_contents import ALL, done, misweighed, out_of_step, recount
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model.after import GONE, NEXT, Transition
from pubqueue.model.decision import Done, DoneTogether, Published, Redriven, Refusal, Refused
from pubqueue.model.entities import ItemId, Jid, Millis, NodeName, State, account_of, mark_of
from pubqueue.model.records import PublishKey
from pubqueue.model.replies import Subscribed
from pubqueue.model.waits import AtDeadline, Woken
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.dispatch import in_line
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete, Purge
from pubqueue.rules.presence import Arrive, Bounce, Leave
from pubqueue.rules.publication import Publish
from pubqueue.rules.seek import DropDone, Seek
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.subscribe import Options, SetOptions, Unsubscribe
from pubqueue.rules.together import Together
from pubqueue.rules.unlock import Touch

DEAD = NodeName("jobs-dead")
WORKERS = ("ann@x/1", "bob@x/1", "bob@x/2", "cat@x")
PEOPLE = (*WORKERS, "cat@x/phone", ETL, BOSS, "eve@x/1")
NAMES = ("i1", "i2", "i3", "i4")
DEDUP = 30
REMEMBERED = 40

workers = st.sampled_from(WORKERS).map(Jid)
people = st.sampled_from(PEOPLE).map(Jid)
nodes = st.sampled_from([JOBS, JOBS, DEAD])
names = st.lists(st.sampled_from(NAMES).map(ItemId), min_size=1, max_size=3, unique=True)
payloads = st.sampled_from([b"<one/>", b"<two/>"])
windows = st.integers(1, 3)
picks = st.integers(0, 9)


def lived(change):
    """Return the transition that a change of an item is, and the state that it leads to."""
    match change:
        case c.RemoveItem(done_at=None):
            return Transition.RETRACT, GONE
        case c.RemoveItem():
            return Transition.FINISH, State.DONE
        case c.Release(failed=failed, item=item):
            return (Transition.FAIL if failed > item.failed else Transition.RELEASE), State.QUEUED
        case c.GiveUp():
            return Transition.GIVE_UP, State.DEAD
        case c.Revive():
            return Transition.REVIVE, State.QUEUED
        case c.Hold():
            return Transition.HOLD, State.HELD
        case c.Wake() | c.TakeSignal(wakes=True):
            return Transition.WAKE, State.QUEUED
    return None


class Queue(RuleBasedStateMachine):
    """A queue with its dead-letter node, workers, a publisher, an owner and another account."""

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
        # What is done and kept, and whether the queue keeps it.
        self.kept: dict[int, bytes] = {}
        self.keeps = False
        # How often each was handed out, and how often that ended badly, in its present life.
        self.acquired: Counter[int] = Counter()
        self.failed: Counter[int] = Counter()
        # Who was the last to be handed it, in its present life.
        self.last: dict[int, Jid] = {}
        # The ids and names of the signals that are kept with each, how many of these were shown, and the ids of earlier ones.
        self.came: dict[int, list[tuple[str, str]]] = {}
        self.shown: Counter[int] = Counter()
        self.known: dict[int, set[str]] = {}
        # What was settled and is to be remembered, and until when.
        self.remembered: list[tuple[Settle, int]] = []
        # What was published under each key: which ids, what, and until when it is remembered.
        self.keys: dict[str, tuple[tuple[ItemId, ...], tuple[bytes, int], int]] = {}
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
        """Run the requests in one batch, check everything against the rules, return the replies."""
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
                if isinstance(change, c.ReplacePayload | c.RemoveItem):
                    self.forget_signals(change.item.seq)
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
        """Return whether a worker that is silent or held back sends the request: even a refused request shows that it is alive, and it may get items again."""
        asking = [one for one in requests if hasattr(one, "by") and hasattr(one, "node")]
        keys = {(one.node, jid) for one in asking for jid in (one.by.jid, one.by.account)}
        rows = [self.shell.look(lambda tx, key=key: tx.subscription(*key)) for key in keys]
        if any(row is not None and row.unanswered for row in rows):
            return True
        return any(self.shell.holds_back(*key) for key in keys)

    def settle_groups(self, outcome):
        """Turns come in the order of publish, up to the limit; a lowered limit waits for existing turns to end."""
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
        """A failure counts; a redriven item, or one in the dead-letter node, starts without failures."""
        seq = change.item.seq
        if event is Transition.FAIL:
            self.failed[seq] += 1
        elif event in {Transition.RETRACT, Transition.FINISH, Transition.REVIVE} or (
            event is Transition.GIVE_UP and change.to
        ):
            self.begins(seq)
        elif event is Transition.HOLD:
            self.failed[seq] = 0
            self.last.pop(seq, None)
        elif event is Transition.GIVE_UP:
            assert change.failed - self.failed[seq] in {0, 1}  # a life that ends has not failed
            self.failed[seq] = change.failed

    def begins(self, seq):
        """A sequence number may be reused when its item, the newest, is gone."""
        self.acquired[seq] = self.failed[seq] = 0
        self.last.pop(seq, None)

    def delivered(self, notice, locked):
        """A delivered item exists and is not locked to another worker, and its token is new."""
        item = notice.item
        assert not self.shell.look(lambda tx: tx.node(item.node)).config.paused
        self.acquired[item.seq] += 1
        self.last[item.seq] = notice.to
        assert item.token > self.token
        self.token = item.token
        assert item.seq not in locked
        self.shown[item.seq] = len(self.came.get(item.seq, ()))
        assert self.stored(item.node, item.id) == item
        assert notice.to == item.holder
        self.ends_in_time(item)
        assert notice.payload == self.shell.look(lambda tx: tx.payload(item))
        holder = self.shell.look(lambda tx: tx.subscription(item.node, notice.to))
        assert holder.in_flight <= holder.queue_requests

    def ends_in_time(self, item):
        """A lock lasts as long as its node allows and the subscription requests."""
        held = self.shell.look(lambda tx: tx.subscription(item.node, item.holder))
        most = self.shell.look(lambda tx: tx.node(item.node)).config.lock_timeout
        own = most if held.lock_timeout is None else held.lock_timeout
        assert item.deadline == self.shell.now + min(own, most) * 1000

    def forget_signals(self, seq):
        self.came.pop(seq, None)
        self.known.pop(seq, None)
        self.shown.pop(seq, None)

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
        self.closed = self.keeps = False
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
        busy = busy or self.lacks_room(names, payload)
        absorbed = [name for name in names if self.absorbs(name, payload)]
        reply = self.do(publishes(*names, payload=payload, delay=delay, **more))
        assert isinstance(reply, Published) == (self.there and not busy)
        if isinstance(reply, Published):
            self.confirmed(names, payload)
            assert [name for name in absorbed if self.stored(JOBS, name)] == []

    def lacks_room(self, names, payload):
        """Return whether the queue has no room for this many more bytes; all payloads have one size."""
        node, size = self.shell.look(lambda tx: tx.node(JOBS)), len(payload)
        if node is None or node.config.max_bytes is None:
            return False
        new = sum(self.stored(JOBS, n) is None and not self.absorbs(n, payload) for n in names)
        over = new and node.bytes + new * size > node.config.max_bytes
        return bool(over or len(names) * size > node.config.max_bytes)

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
        """Another payload with this id is locked, or dead."""
        item = self.stored(JOBS, name)
        stays = item is not None and item.state in {State.LOCKED, State.HELD, State.DEAD}
        return stays and self.work[item.seq] != payload

    def confirmed(self, names, payload):
        for name in names:
            item = self.stored(JOBS, name)
            if item is None:
                done, until = self.finished[name]
                assert (done, until > self.shell.now) == (payload, True)
            else:
                self.work[item.seq] = payload

    @rule(
        names=names,
        payload=payloads,
        by=st.sampled_from([ETL, "etl@x/other"]),
        key=st.sampled_from("kl"),
        strict=st.booleans(),
    )
    def publish_under_a_key(self, names, payload, by, key, strict):
        """A publish is done once: while it is remembered, a repetition gets the first answer and does nothing."""
        used = PublishKey(key, Millis(REMEMBERED * 1000), strict)
        request = replace(publishes(*names, payload=payload, by=by), key=used)
        ids, contents, until = self.keys.get(key, ((), (), 0))
        before, silent = self.shell.dump(), self.any_silent([request])
        busy = self.closed or any(self.taken(name, payload) for name in names)
        busy = busy or self.lacks_room(names, payload)
        reply = self.do(request)
        if until > self.shell.now:
            if strict and contents != (payload, len(names)):
                assert reply == Refused(Refusal.KEY_REUSED)
            else:
                assert (reply.ids, reply.again) == (ids, True)
            assert silent or self.shell.dump() == before
            return
        assert isinstance(reply, Published) == (self.there and not busy)
        if isinstance(reply, Published):
            assert (reply.ids, reply.again) == (tuple(names), False)
            self.confirmed(names, payload)
            self.keys[key] = reply.ids, (payload, len(names)), self.shell.now + REMEMBERED * 1000

    @rule(names=names, others=names, payload=payloads, order=st.permutations(range(3)))
    def publish_and_retract_together(self, names, others, payload, order):
        """All parts are done, or none; each part sees the results of those before it."""
        parts = publishes(*names, payload=payload), retracts(ETL, *others), publishes(names[0])
        parts = [parts[at] for at in order]
        left = {name: self.stored(JOBS, name) for name in NAMES}
        gone = []
        may = self.there and all(self.comes_next(part, left, gone) for part in parts)
        assert isinstance(self.do(Together(who(ETL), tuple(parts))), DoneTogether) == may
        if may:
            for item in gone:
                del self.work[item.seq]
            for name, there in left.items():
                if isinstance(there, bytes):
                    self.confirmed([name], there)

    def comes_next(self, part, left, gone):
        """Record the result of a part for each id: an existing item, a new payload, or None; return whether the part is allowed."""
        if isinstance(part, Publish):
            before = dict(left)
            comes = not self.closed and all(self.comes(draft, left) for draft in part.drafts)
            return comes and self.has_room(part.drafts, before, left)
        for name in part.ids:
            there, left[name] = left[name], None
            if there is None or not (isinstance(there, bytes) or self.may_retract(ETL, there)):
                return False
            gone += [there] if not isinstance(there, bytes) else self.replaced(name)
        return True

    def has_room(self, drafts, before, after):
        """Return whether the queue has room for the result of a part; all payloads have one size."""
        node = self.shell.look(lambda tx: tx.node(JOBS))
        if (most := node.config.max_bytes) is None:
            return True
        size = len(drafts[0].payload)
        stored = sum(self.stored(JOBS, name) is not None for name in NAMES)
        kept = sum(there is not None for there in before.values())
        now = sum(there is not None for there in after.values())
        fits = now == kept or node.bytes + (now - stored) * size <= most
        return fits and len(drafts) * size <= most

    def comes(self, draft, left):
        there = left[draft.id]
        if there is None or isinstance(there, bytes):
            done, until = self.finished.get(draft.id, (None, 0))
            absorbed = there is None and (done, until > self.shell.now) == (draft.payload, True)
            left[draft.id] = None if absorbed else draft.payload
            return True
        if self.work[there.seq] == draft.payload:
            return True
        if there.state not in {State.LOCKED, State.HELD, State.DEAD}:
            left[draft.id] = draft.payload
            return True
        return False

    def replaced(self, name):
        """Return the item whose payload an earlier part has replaced, if any; it goes with the new one."""
        item = self.stored(JOBS, name)
        return [] if item is None else [item]

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
        """Only an item that its holder retracts is done; other accounts withdraw it."""
        payload = self.work.pop(item.seq)
        if finished and item.node == JOBS and self.keeps:
            self.kept[item.seq] = payload
        if finished and item.node == JOBS:
            self.finished[item.id] = payload, self.shell.now + DEDUP * 1000

    def may_retract(self, by, item):
        """Its holder may, former holders may not; then the owner and the publisher."""
        if item is None or item.holder in {by, account_of(by)}:
            return item is not None
        lost = self.shell.look(lambda tx: tx.lost_by(item, (by, account_of(by))))
        return by in {BOSS, ETL} and not lost

    @precondition(lambda self: self.items())
    @rule(by=people, pick=picks, older=st.sampled_from([0, 0, 1]), late=st.booleans())
    def retract_under_a_lock(self, by, pick, older, late):
        """A token names exactly one lock; a late answer counts while no other worker has had the item."""
        items = self.items()
        item = items[pick % len(items)]
        jids = {by, account_of(by)}
        lost = item.holder not in jids and self.has_lost(by, item)
        in_time = item.holder is None and self.last.get(item.seq) in jids
        may = self.may_retract(by, item) or (late and lost and in_time)
        request = replace(
            retracts(by, item.id, node=item.node), token=item.token - older, late=late
        )
        reply = self.do(request)
        assert isinstance(reply, Refused) != (may and not older)
        if not isinstance(reply, Refused):
            self.done(item, finished=lost or item.holder in jids)

    @precondition(lambda self: self.items())
    @rule(
        by=people,
        node=nodes,
        named=st.lists(
            st.tuples(st.sampled_from(NAMES), st.sampled_from([None, 0, 1])), max_size=5
        ),
        outcome=st.none() | st.sampled_from(Outcome),
    )
    def settle_each(self, by, node, named, outcome):
        """Each of many locks is judged separately; those that are not refused are settled, once."""
        known = {name: self.stored(node, ItemId(name)) for name, _ in named}
        locks = [
            (name, None if older is None or known[name] is None else known[name].token - older)
            for name, older in named
        ]
        retract = outcome is None
        said = retracts(by, node=node) if retract else unlocks(by, node=node, outcome=outcome)
        jids = {by, account_of(by)}
        may = [
            (self.may_retract(by, item) if retract else item is not None and item.holder in jids)
            and older != 1
            for (name, older), item in ((one, known[one[0]]) for one in named)
        ]
        reply = self.do(settles_each(said, *locks))
        if isinstance(reply, Refused):
            assert not any(may)
            return
        assert [not isinstance(answer, Refused) for answer in reply.answers] == may
        done = {name for (name, _), could in zip(named, may, strict=True) if could}
        for item in (known[name] for name in done if retract):
            self.done(item, finished=item.holder in jids)

    @precondition(lambda self: self.holders())
    @rule(pick=picks, older=st.sampled_from([0, 1]), outcome=st.none() | st.sampled_from(Outcome))
    def unlock_or_touch_under_a_lock(self, pick, older, outcome):
        item = self.picked(pick)
        token = item.token - older
        unlock = unlocks(item.holder, item.id, node=item.node, outcome=outcome, token=token)
        touch = Touch(who(item.holder), item.node, (item.id,), token=token)
        reply = self.do(touch if outcome is None else unlock)
        assert isinstance(reply, Refused) == (older == 1)

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
    @rule(pick=picks, outcome=st.none() | st.sampled_from(Outcome))
    def settle_to_be_remembered(self, pick, outcome):
        item = self.picked(pick)
        retract = outcome is None
        said = {"token": item.token, "remember": Millis(REMEMBERED * 1000)}
        by, node = item.holder, item.node
        once = replace(retracts(by, item.id, node=node), **said)
        if not retract:
            once = unlocks(by, item.id, node=node, outcome=outcome, **said)
        assert self.do(once) == Done()
        if retract:
            self.done(item, finished=True)
        self.remembered.append((once, self.shell.now + REMEMBERED * 1000))

    @precondition(lambda self: self.remembered)
    @rule(pick=picks, by=people, other=st.booleans())
    def repeat_what_was_settled(self, pick, by, other):
        """A repetition gets the same answer and does nothing; another verdict or another account does not get it."""
        once, until = self.remembered[pick % len(self.remembered)]
        node = self.shell.look(lambda tx: tx.node(once.node))
        before, silent = self.shell.dump(), self.any_silent([once])
        verb = once.verb if not other else next(verb for verb in Verb if verb is not once.verb)
        reply = self.do(replace(once, verb=verb, outcome=Outcome.RELEASE))
        if node is not None and until > self.shell.now:
            refusal = None if isinstance(reply, Done) else reply.refusal
            assert refusal is (Refusal.LOCK_LOST if other else None)
            assert other or reply.again
            assert silent or self.shell.dump() == before
        else:
            assert isinstance(reply, Refused)
        if account_of(by) != account_of(once.by.jid) and by not in {BOSS, ETL}:
            assert isinstance(self.do(replace(once, by=who(by))), Refused)

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

    @precondition(lambda self: self.holders() and not self.is_bounded)
    @rule(
        pick=picks,
        words=st.sampled_from(["", "a", "ab"]),
        within=st.sampled_from([5, 5, 61, None]),
        then=st.sampled_from(AtDeadline),
    )
    def hold(self, pick, words, within, then):
        """An item waits for what its worker has named, unless that has come already, and has not woken it before."""
        item = self.picked(pick)
        words = words or ("a" if within is None else "")
        came, shown = self.came.get(item.seq, []), self.shown[item.seq]
        woken = item.wait is not None and item.wait.woken is Woken.SIGNAL
        over = [one for one in came[:shown] if woken and one[1] in item.wait.signals]
        self.known.setdefault(item.seq, set()).update(one for one, _ in over)
        self.came[item.seq] = [one for one in came if one not in over]
        self.shown[item.seq] = 0
        wakes = any(word in words for _, word in self.came[item.seq])
        request = holds(item.holder, item.id, *words, node=item.node, within=within, then=then)
        assert self.do(replace(request, token=item.token)) == Done()
        now = self.stored(item.node, item.id)
        if not wakes:
            until = None if within is None else self.shell.now + within * 1000
            assert (now.state, now.due, now.wait.signals) == (State.HELD, until, tuple(words))
        assert now.wait.woken is (Woken.SIGNAL if wakes else None)

    @precondition(lambda self: not self.is_bounded)
    @rule(
        by=people,
        node=nodes,
        name=st.sampled_from(NAMES),
        word=st.sampled_from("abc"),
        number=st.integers(0, 5),
    )
    def signal(self, by, node, name, word, number):
        """A signal counts once, and wakes what is held for it; strangers learn nothing."""
        item = self.stored(node, ItemId(name)) if node == DEAD or self.there else None
        reply = self.do(signals(name, word, by=by, node=node, once=f"s{number}"))
        if isinstance(reply, Refused):
            may = by in {BOSS, ETL}
            missing = Refusal.ITEM_NOT_FOUND if may else Refusal.FORBIDDEN
            gone = node == JOBS and not self.there
            assert reply.refusal is (Refusal.NODE_NOT_FOUND if gone else missing)
            assert not may or item is None
            return
        came = self.came.setdefault(item.seq, [])
        again = f"s{number}" in {one for one, _ in came} | self.known.get(item.seq, set())
        wakes = item.state is State.HELD and word in item.wait.signals and not again
        assert (reply.again, reply.wakes) == (again, wakes)
        if not again:
            came.append((f"s{number}", word))
            if (now := self.stored(node, item.id)).acquired > item.acquired:
                self.shown[item.seq] = len(came)  # it was delivered in this batch
                assert now.wait.woken is Woken.SIGNAL

    @property
    def is_bounded(self):
        """Whether a node has a limit of bytes, which the model knows for payloads alone."""
        return any(
            node.config.max_bytes is not None for node in self.shell.look(lambda tx: tx.nodes())
        )

    @precondition(lambda self: self.holders())
    @rule(pick=picks, seconds=st.sampled_from([None, 0, 1, 90]))
    def hold_exactly(self, pick, seconds):
        """The deadline is the requested one, within the lock timeout; zero releases the item without a failure."""
        item = self.picked(pick)
        span = None if seconds is None else Millis(seconds * 1000)
        reply = self.do(Touch(who(item.holder), item.node, (item.id,), span, exact=True))
        most = self.shell.look(lambda tx: tx.node(item.node)).config.lock_timeout
        wanted = most if seconds is None else min(seconds, most)
        assert reply.entries == ((item.id, self.shell.now + wanted * 1000),)
        now = self.stored(item.node, item.id)
        assert now.failed == item.failed
        assert now.token > item.token or (now.holder is None) == (seconds == 0)

    @precondition(lambda self: self.holders())
    @rule(pick=picks, late=st.integers(0, 1), gone=st.booleans(), ours=st.booleans())
    def bounce(self, pick, late, gone, ours):
        item = self.picked(pick)
        under = self.shell.look(lambda tx: tx.subscription(item.node, item.holder))
        mark = mark_of(under.subid) if ours and under else "another"
        token = item.token - late
        active_since = self.shell.look(lambda tx: tx.active_since(item.holder))
        self.do(Bounce(item.holder, item.seq, token, gone, bounced=True, mark=mark))
        after = self.stored(item.node, item.id)
        assert after.failed == item.failed
        assert late == 0 or after == item
        now = self.shell.look(lambda tx: tx.subscription(item.node, item.holder))
        ends = gone and ours and late == 0 and token >= active_since
        assert (now is None) == (under is None or ends)

    @rule(worker=workers, pick=picks)
    def come_too_late(self, worker, pick):
        """A worker that has lost an item may never settle it, whatever else it is."""
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

    @rule(
        worker=workers,
        node=nodes,
        requests=windows,
        how=st.sampled_from(["go", "shut", "own", "none", *"123"]),
    )
    def come_or_go(self, worker, node, requests, how):
        request = {
            "go": Unsubscribe(who(worker), node, worker),
            "shut": Leave(worker),
            "1": Arrive(worker),
            "own": SetOptions(who(worker), node, worker, None, Options(lock_timeout=requests * 9)),
            "none": SetOptions(who(worker), node, worker, None, Options(lock_timeout="")),
        }
        self.do(request.get(how, SetOptions(who(worker), node, worker, None, Options(requests))))

    # --- owners, and time ----------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 1, 5, 61]))
    def time_passes(self, seconds):
        self.shell.wait(seconds)
        for item in self.items():
            over = item.state is State.HELD and item.due is not None and item.due <= self.shell.now
            lives = item.expires is None or item.expires > self.shell.now
            if over and lives and item.wait.then is AtDeadline.DISCARD:
                del self.work[item.seq]
                self.begins(item.seq)
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

    @precondition(lambda self: all(item.wait is None for item in self.items()))
    @rule(node=nodes, most=st.sampled_from([None, 6, 17, 18]))
    def bound_the_bytes(self, node, most):
        self.do(Configure(who(BOSS), node, Settings({"max_bytes": most})))

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
                self.forget_signals(seq)
            self.kept = {}
            self.work = {seq: payload for seq, payload in self.work.items() if seq not in gone}
            self.finished = self.finished if kind is Purge else {}

    @rule(keeps=st.booleans())
    def keep_what_is_done_or_not(self, keeps):
        if isinstance(self.do(Configure(who(BOSS), JOBS, Settings({"keep_done": keeps}))), Done):
            self.keeps = keeps

    @rule(by=people, ago=st.sampled_from([-1, 0, 0.5, 1, 5, 70]))
    def seek(self, by, ago):
        """Older items are done; items that were done since then are back, the first of each id, while they live."""
        since = self.shell.now - round(ago * 1000)
        here = [item for item in self.items() if item.node == JOBS]
        kept = self.shell.look_within(lambda tx: done(tx, JOBS))
        may, step = by == BOSS and self.there, Seek(who(by), JOBS, since)
        while step is not None:
            (decision,) = self.step(step)
            step = decision.then
        assert isinstance(decision.reply, Refused) != may
        if may:
            purged = not self.keeps and ago <= 0
            for item in here:
                if item.published < since or purged:
                    self.end_for_a_seek(item)
            if purged:
                self.kept.clear()
            self.bring_back([item for item in kept if item.published >= since])

    def end_for_a_seek(self, item):
        payload = self.work.pop(item.seq)
        self.begins(item.seq)
        if self.keeps:
            self.kept[item.seq] = payload

    def bring_back(self, kept):
        for item in kept if self.keeps else ():
            lives = item.expires is None or item.expires > self.shell.now
            there = self.stored(JOBS, item.id)
            if lives and there is not None and there.seq == item.seq:
                self.work[item.seq] = self.kept.pop(item.seq)
            else:
                assert not lives or there is not None

    @rule()
    def drop_what_is_not_kept(self):
        step, before = DropDone(), dict(self.kept)
        found = self.shell.look_within(lambda tx: done(tx, JOBS))
        over = {one.seq for one in found if one.expires and one.expires <= self.shell.now}
        while step is not None:
            (decision,) = self.step(step)
            step = decision.then
        node = self.shell.look(lambda tx: tx.node(JOBS))
        left = self.shell.look_within(lambda tx: done(tx, JOBS))
        self.kept = {item.seq: before[item.seq] for item in left}
        if node is not None and self.keeps and before:
            most = node.config.max_bytes or sum(map(len, before.values()))
            size = sum(map(len, self.kept.values()))
            gone = before.keys() - self.kept.keys() - over
            first = next((before[seq] for seq in before if seq in gone), b"")
            assert size <= most
            assert not first or size + len(first) > most, "more than had to go"
        else:
            assert self.kept == {}

    # --- what is always true -------------------------------------------------------------------------

    @invariant()
    def what_was_confirmed_is_there_and_what_has_gone_does_not_come_back(self):
        found = self.shell.look(lambda tx: {i.seq: tx.payload(i) for i in self.seen(tx)})
        assert found == self.work

    def seen(self, tx):
        return [tx.item(n.name, i) for n in tx.nodes() for i in tx.item_ids(n.name, ALL)]

    @invariant()
    def what_is_done_and_kept_is_whole_and_beside_its_queue(self):
        found = self.shell.look_within(lambda tx: done(tx, JOBS))
        payloads = self.shell.look(lambda tx: {item.seq: tx.payload(item) for item in found})
        assert payloads == self.kept
        assert {item.state for item in found} <= {State.DONE}

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
    def what_has_come_is_with_its_item(self):
        for item in self.items():
            came = () if item.wait is None else item.wait.came
            assert [(one.id, one.name) for one in came] == self.came.get(item.seq, [])

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
