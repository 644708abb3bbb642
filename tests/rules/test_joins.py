"""Who may add members to a join, what counts, and that a join wakes exactly once: a machine with an oracle that knows every member."""

from dataclasses import dataclass, field

import pytest
from harness.batches.facts import BOSS, ETL, EVE, JOBS, NOW, after, draft, queue, waiting, who
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model.after import after as item_after
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Awaited,
    DeadLetter,
    ItemId,
    Joined,
    NodeName,
    State,
)
from pubqueue.model.joins import MAX_MEMBERS, NOTHING, Join, JoinDead, Tally
from pubqueue.model.transactions import Mark, Orphan
from pubqueue.model.waits import DAMAGED, MAX_OF_JOIN, AtDeadline, Came, Wait, Woken
from pubqueue.rules import joins, waits
from pubqueue.rules.give_back import Case
from pubqueue.rules.joins import Close, Met
from pubqueue.rules.publication import JoinMet, Known, Publish, PublishFacts
from pubqueue.rules.publish import publish
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.validity import of_publish, of_stage
from pubqueue.rules.waits import SignalFacts

ENDS = NodeName("ends")
NONE, OWNER = Affiliation.NONE, Affiliation.OWNER
DEAD = DeadLetter(1, NOW, "no ink")
MEMBER = waiting(1, joins=9)


def a_join(join=None, **facts):
    known = {"state": State.HELD, "node": ENDS, "id": ItemId("rest")} | facts
    return waiting(9, **{"wait": Wait(join=join or Join(2, 0, 2))} | known)


def refusal(reply):
    return reply.refusal if isinstance(reply, Refused) else None


# --- what counts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "tally"),
    [
        (None, MEMBER, Tally(added=1)),
        (MEMBER, None, Tally(gone=1)),
        (MEMBER, replace(MEMBER, state=State.DONE, joins=0), Tally(gone=1)),
        (MEMBER, replace(MEMBER, node=ENDS), NOTHING),
        (MEMBER, replace(MEMBER, state=State.HELD), NOTHING),
        (MEMBER, replace(MEMBER, dead_letter=DEAD), Tally(died=1)),
        (replace(MEMBER, dead_letter=DEAD), MEMBER, Tally(revived=1)),
        (replace(MEMBER, dead_letter=DEAD), replace(MEMBER, dead_letter=DEAD), NOTHING),
        (replace(MEMBER, dead_letter=DEAD), None, Tally(gone=1, revived=1)),
    ],
)
def test_what_has_happened_to_a_member(before, now, tally):
    assert joins.passed(before, now) == tally


@pytest.mark.parametrize("is_dead", [False, True])
def test_what_is_swept_is_gone(is_dead):
    orphan = Orphan(1, ItemId("a"), ETL, (), 0, 0, joins=9, is_dead=is_dead)
    assert joins.swept(orphan) == Tally(gone=1, revived=int(is_dead))


@pytest.mark.parametrize(
    "item", [None, waiting(9), a_join(wait=None), a_join(wait=Wait()), a_join(wait=DAMAGED)]
)
def test_what_is_no_join_any_more_counts_nothing(item):
    assert joins.counted(Met(item, queue(), Tally(gone=1)), NOW) is None


def test_nothing_becomes_of_a_join_to_which_nothing_has_happened():
    assert joins.counted(Met(a_join(), queue(), NOTHING), NOW) is None
    assert joins.count([Met(a_join(), queue(), NOTHING)], NOW) == ()


# --- who may ------------------------------------------------------------------------------------

THERE = JoinMet(queue(name=ENDS), OWNER, a_join())


def publishes(way=THERE, *, by=ETL, known=(Known.NEW, None), last=False, **facts):
    one = draft("a", joins=Joined(ENDS, ItemId("rest"), last), **facts)
    here = {(ENDS, ItemId("rest")): way}
    met = PublishFacts(
        NOW, queue(), Affiliation.PUBLISHER, subscribed=False, existing=(known,), joins=here
    )
    return publish(Publish(who(by), JOBS, (one,)), met)


def test_a_member_has_the_number_of_its_join():
    (add,) = publishes().changes
    assert (add.joins, item_after(add).joins) == (9, 9)
    add, close = publishes(last=True).changes
    assert (add.joins, close) == (9, c.CloseJoin(THERE.item))


@pytest.mark.parametrize("affiliation", Affiliation)
def test_who_may_not_signal_the_join_learns_nothing_of_it(affiliation):
    may = affiliation in {OWNER, Affiliation.PUBLISHER, Affiliation.PUBLISH_ONLY}
    node = queue(name=ENDS, access_model=AccessModel.OPEN)
    ways = [JoinMet(node, affiliation, item) for item in (a_join(), None, waiting(9))]
    found = [refusal(publishes(way, by=EVE).reply) for way in ways]
    if may:
        assert found == [None, Refusal.ITEM_NOT_FOUND, Refusal.PRECONDITION_NOT_MET]
    else:
        assert found == [Refusal.FORBIDDEN] * 3
    closes = [
        refusal(joins.close(Close(who(EVE), ENDS, ItemId("rest")), SignalFacts(NOW, *way)).reply)
        for way in ((one.node, one.affiliation, one.item) for one in ways)
    ]
    assert closes == found


def test_its_author_may():
    way = JoinMet(queue(name=ENDS, access_model=AccessModel.WHITELIST), NONE, a_join())
    assert publishes(way).changes


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (None, Refusal.ITEM_NOT_FOUND),
        (a_join(wait=Wait()), Refusal.PRECONDITION_NOT_MET),
        (a_join(wait=None), Refusal.PRECONDITION_NOT_MET),
        (a_join(wait=DAMAGED), Refusal.STORE_FAILED),
        (a_join(Join(0, 0, 0, is_open=False)), Refusal.PRECONDITION_NOT_MET),
        (a_join(state=State.DEAD), Refusal.PRECONDITION_NOT_MET),
        (a_join(Join(0, 0, MAX_MEMBERS)), Refusal.TOO_MANY_SIGNALS),
        (a_join(Join(0, 0, MAX_MEMBERS - 1)), None),
        (a_join(state=State.LOCKED), None),
    ],
)
def test_a_member_is_added_to_an_open_join(item, expected):
    assert refusal(publishes(JoinMet(queue(name=ENDS), OWNER, item)).reply) is expected


@pytest.mark.parametrize(
    ("known", "is_member", "expected"),
    [
        (Known.SAME, True, None),
        (Known.OTHER, True, None),
        (Known.SAME, False, Refusal.ITEM_EXISTS),
        (Known.OTHER, False, Refusal.ITEM_EXISTS),
    ],
)
def test_what_is_there_has_to_be_a_member_already(known, is_member, expected):
    found = known, replace(MEMBER, id=ItemId("a"), joins=9 if is_member else 0)
    decision = publishes(known=found)
    assert refusal(decision.reply) is expected
    assert not any(isinstance(change, c.AddItem) for change in decision.changes)


def test_what_is_done_is_repeated_by_who_had_the_right_as_its_author_alone():
    gone = JoinMet(queue(name=ENDS), NONE, None)
    assert publishes(gone, known=(Known.FINISHED, None), last=True).changes == ()
    there = Known.SAME, replace(MEMBER, id=ItemId("a"))
    assert publishes(gone, known=there).changes == ()
    other = Known.SAME, replace(MEMBER, id=ItemId("a"), joins=0)
    assert refusal(publishes(gone, known=other).reply) is Refusal.FORBIDDEN


def test_other_work_in_a_queue_is_not_held():
    one = draft("a", hold=Awaited(is_join=True))
    known = Known.OTHER, waiting(1, id=ItemId("a"))
    facts = PublishFacts(NOW, queue(), OWNER, subscribed=False, existing=(known,))
    assert refusal(publish(Publish(who(BOSS), JOBS, (one,)), facts).reply) is Refusal.ITEM_EXISTS


@pytest.mark.parametrize(
    "said",
    [
        {"hold": Awaited()},
        {"hold": Awaited(("",))},
        {"hold": Awaited(within=-1)},
        {"hold": Awaited(is_join=True), "delay": 1},
        {"joins": Joined(NodeName(""), ItemId("a"))},
        {"joins": Joined(ENDS, ItemId("a\n"))},
    ],
)
def test_a_publish_has_bounds(said):
    asked = Publish(who(ETL), JOBS, (draft("a", **said),))
    assert of_publish(asked).refusal is Refusal.BAD_REQUEST


@pytest.mark.parametrize("said", [{"hold": Awaited(("a",))}, {"joins": Joined(ENDS, ItemId("a"))}])
def test_what_is_staged_has_neither(said):
    asked = Publish(who(ETL), JOBS, (draft("a", **said),))
    assert of_publish(asked) is None
    assert of_stage(StagePublish(asked, Mark("etl@x app", 1))).refusal is Refusal.BAD_REQUEST


def test_a_closed_join_is_closed_again_to_have_it_looked_at():
    closed = a_join(Join(0, 0, 0, is_open=False))
    decision = joins.close(
        Close(who(BOSS), ENDS, ItemId("rest")), SignalFacts(NOW, queue(name=ENDS), OWNER, closed)
    )
    assert (decision.reply, decision.changes) == (Done(), (c.CloseJoin(closed),))


def test_a_join_keeps_fewer_bytes_of_signals():
    most = Came("s1", "a", "x" * (MAX_OF_JOIN - len("s1aboss@x")), "boss@x", NOW)
    assert Wait(join=Join()).has_room(most)
    assert not Wait(join=Join()).has_room(replace(most, data=f"{most.data}x"))
    assert Wait().has_room(replace(most, data=f"{most.data}x"))
    signal = waits.Signal(who(BOSS), ENDS, ItemId("rest"), "a", "x" * MAX_OF_JOIN, "s1")
    decision = waits.signal(signal, SignalFacts(NOW, queue(name=ENDS), OWNER, a_join()))
    assert decision.reply.refusal is Refusal.TOO_MANY_SIGNALS
    assert str(MAX_OF_JOIN) in decision.reply.reason


# --- the machine --------------------------------------------------------------------------------


@dataclass
class Oracle:
    """What a join should know: its members by number, dead or not; and how often it has been woken, and why."""

    policy: JoinDead
    members: dict[int, bool] = field(default_factory=dict)
    is_open: bool = True
    woken: list[Woken] = field(default_factory=list)
    has_failed: bool = False

    @property
    def is_complete(self):
        awaited = [dead for dead in self.members.values() if not (dead and self.policy == "count")]
        return not self.is_open and not awaited

    @property
    def fails(self):
        return self.policy == "fail" and any(self.members.values())


class Joins(RuleBasedStateMachine):
    """Members are added, done, cancelled, die, are redriven, in any order; the join is closed, signaled, and its time ends."""

    @initialize(policy=st.sampled_from(JoinDead), deadline=st.booleans())
    def begin(self, policy, deadline):
        self.oracle = Oracle(policy)
        self.node = queue(name=ENDS, join_dead=policy)
        due = after(9) if deadline else None
        wait = Wait(("hurry",), NOW, AtDeadline.DELIVER, join=Join())
        self.item = a_join(wait=wait, due=due)
        self.next = 10

    def _look(self, tally=NOTHING):
        """Do what the batch does after each decision."""
        was = self.item.state
        for change in joins.count([Met(self.item, self.node, tally)], NOW):
            self.item = item_after(change)
        if was is State.HELD and self.item.state is State.QUEUED:
            self.oracle.woken.append(self.item.wait.woken)

    @property
    def _is_held(self):
        return self.item.state is State.HELD

    @precondition(lambda self: self.oracle.is_open and self.item.state is not State.DEAD)
    @rule(many=st.integers(1, 3))
    def add(self, many):
        for _ in range(many):
            self.oracle.members[self.next] = False
            self.next += 1
        self._look(Tally(added=many))

    @precondition(lambda self: self.oracle.members)
    @rule(data=st.data())
    def ends(self, data):
        member = data.draw(st.sampled_from(sorted(self.oracle.members)))
        is_dead = self.oracle.members.pop(member)
        before = waiting(member, joins=9, dead_letter=DEAD if is_dead else None)
        self._look(joins.passed(before, None))

    @precondition(lambda self: self.oracle.members)
    @rule(data=st.data())
    def dies_or_lives(self, data):
        member = data.draw(st.sampled_from(sorted(self.oracle.members)))
        is_dead = self.oracle.members[member]
        living = waiting(member, joins=9)
        dead = replace(living, state=State.DEAD, dead_letter=DEAD)
        self.oracle.members[member] = not is_dead
        self._look(joins.passed(dead, living) if is_dead else joins.passed(living, dead))

    @rule()
    def close(self):
        self.oracle.is_open = False
        self.item = item_after(c.CloseJoin(self.item))
        self._look()

    @precondition(lambda self: self._is_held)
    @rule()
    def signal(self):
        came = Came(f"s{self.next}", "hurry", "", "boss@x", NOW)
        self.next += 1
        self.item = item_after(c.TakeSignal(self.item, came, wakes=True))
        self.oracle.woken.append(Woken.SIGNAL)

    @precondition(lambda self: self._is_held and self.item.due is not None)
    @rule()
    def time_ends(self):
        if waits.ends(self.item):
            change = waits.end(Case(self.item, self.node), NOW)
            assert change.reason == waits.MEMBER_DIED
            self.item = item_after(replace(change, number=1))
            self.oracle.has_failed = True
        else:
            self.item = item_after(c.Wake(self.item))
            self.oracle.woken.append(Woken.TIME)

    @precondition(lambda self: self.item.state is State.QUEUED)
    @rule()
    def is_held_again(self):
        """A worker has it, and lets it wait for a signal, and for the members that are still to come."""
        counts = self.item.wait.woken is not Woken.COUNT
        locked = item_after(c.Lock(self.item, EVE, 7, after(60), NOW))
        self.item = item_after(c.Hold(locked, replace(locked.wait.over(), signals=("hurry",))))
        assert self._is_held, "what woke it does not wake it again"
        if counts:
            self._look()
        else:
            self.teardown_of_count()

    def teardown_of_count(self):
        assert self.item.wait.join is None
        self.oracle.members.clear()
        self.oracle.is_open = True
        self.item = replace(self.item, wait=replace(self.item.wait, join=Join()))
        self.oracle.woken.clear()

    @invariant()
    def it_counts_its_members(self):
        if not hasattr(self, "oracle"):
            return
        join, members = self.item.wait.join, self.oracle.members
        assert (join.to_come, join.dead) == (len(members), sum(members.values()))
        assert join.is_open is self.oracle.is_open

    @invariant()
    def it_is_woken_once_when_it_is_complete(self):
        if not hasattr(self, "oracle"):
            return
        assert self.oracle.woken.count(Woken.COUNT) <= 1
        if self._is_held:
            assert not self.oracle.is_complete
            if self.oracle.fails:
                assert waits.ends(self.item)
                assert self.item.due <= NOW
        if self.item.state is State.QUEUED and self.item.wait.woken is Woken.COUNT:
            assert self.oracle.woken.count(Woken.COUNT) == 1


TestJoins = Joins.TestCase
