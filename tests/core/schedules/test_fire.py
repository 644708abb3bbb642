"""A firing of a schedule: which of its times is published, which are settled, and the effect of a refusal."""

import pytest
from harness.batches.facts import JOBS, NIGHTLY, NOW, after, plain, queue, who
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, PutRow
from pubqueue.model.decision import Decision, Refusal, Refused
from pubqueue.model.entities import Affiliation, State
from pubqueue.model.schedules import Fired, Missed, Times, TimesWanted, draft_of, stamp
from pubqueue.rules.publication import Known, PublishFacts
from pubqueue.rules.schedules import FireFacts, FireNow, FireSchedule, chosen, fire, fire_now

SERVICE = who("queue.example", admin=True)
DUE = replace(NIGHTLY, fired_through=after(-100), due=after(-90), revision=5)
NEXT = after(500)
PENDING = tuple(map(after, (-90, -70, -10)))
TURN = FireSchedule("nightly")


def missing(missed, **changes):
    return replace(DUE, definition=replace(DUE.definition, missed=missed), **changes)


def facts(schedule=DUE, pending=PENDING, node=None, known=Known.NEW, *, earlier=False, **changes):
    node = queue() if node is None else node
    existing = ((known, None),)
    publish = PublishFacts(NOW, node, Affiliation.NONE, subscribed=False, existing=existing)
    times = Times(DUE.revision, pending, earlier, NEXT)
    return replace(FireFacts(NOW, SERVICE, schedule, times, publish), **changes)


def added(decision):
    return [change for change in decision.changes if isinstance(change, AddItem)]


def kept(decision):
    (found,) = [one.row for one in decision.changes if isinstance(one, PutRow)]
    return found


CHOSEN = [
    (Missed.ONCE, PENDING, -10),
    (Missed.ALL, PENDING, -90),
    (Missed.SKIP, PENDING, -10),
    (Missed.ONCE, PENDING[:1], -90),
    (Missed.ALL, PENDING[:1], -90),
    (Missed.SKIP, PENDING[:1], None),
    *((missed, (), None) for missed in Missed),
]


@pytest.mark.parametrize(("missed", "pending", "seconds"), CHOSEN)
def test_the_requested_one_of_the_due_times_is_published(missed, pending, seconds):
    assert chosen(missed, pending, NOW) == (None if seconds is None else after(seconds))


def test_a_time_is_missed_from_a_minute_on():
    assert chosen(Missed.SKIP, (after(-59.999),), NOW) == after(-59.999)
    assert chosen(Missed.SKIP, (after(-60),), NOW) is None


def test_an_item_is_published_by_the_service_under_the_name_and_the_time():
    decision = fire(TURN, facts())
    name = f"nightly@{stamp(after(-10))}"
    assert decision.reply == Fired("nightly", name)
    (item,) = added(decision)
    assert (item.draft.id, item.publisher, item.state) == (name, "queue.example", State.QUEUED)
    assert item.draft.payload == b"<job/>"


def test_in_the_same_decision_all_times_up_to_it_are_settled():
    decision = fire(TURN, facts(replace(DUE, error="node full", tries=4)))
    assert kept(decision) == replace(
        DUE, fired_through=after(-10), due=NEXT, last=after(-10), error="", tries=0, revision=6
    )


def test_each_missed_time_has_its_own_turn():
    decision = fire(TURN, facts(missing(Missed.ALL)))
    now = kept(decision)
    assert (now.fired_through, now.due, now.last) == (PENDING[0], PENDING[1], PENDING[0])
    last = fire(TURN, facts(missing(Missed.ALL), PENDING[2:]))
    assert kept(last).due == NEXT


@pytest.mark.parametrize(
    ("missed", "pending", "earlier", "skipped"),
    [
        (Missed.ONCE, PENDING, True, False),
        (Missed.ALL, PENDING, False, False),
        (Missed.ALL, PENDING, True, True),
        (Missed.SKIP, PENDING, False, True),
        (Missed.SKIP, PENDING[2:], False, False),
        (Missed.SKIP, PENDING[2:], True, True),
    ],
)
def test_times_that_get_no_item_are_logged(missed, pending, earlier, skipped):
    found = facts(missing(missed), pending, earlier=earlier)
    assert fire(TURN, found).reply.skipped is skipped


def test_missed_times_that_are_skipped_are_settled_without_an_item():
    decision = fire(TURN, facts(missing(Missed.SKIP), PENDING[:2], publish=None))
    assert decision.reply == Fired("nightly", skipped=True)
    assert added(decision) == []
    assert (kept(decision).fired_through, kept(decision).due) == (PENDING[1], NEXT)


@pytest.mark.parametrize(
    "schedule",
    [
        None,
        replace(DUE, due=after(0.001)),
        replace(DUE, due=None),
        replace(DUE, paused=True),
        replace(DUE, definition=replace(DUE.definition, enabled=False)),
    ],
)
def test_a_late_process_changes_nothing(schedule):
    assert fire(TURN, facts(schedule)) == Decision(Fired("nightly"))


def test_the_times_are_asked_for_before_anything_is_decided():
    line = DUE.definition.cron, DUE.definition.zone
    wanted = TimesWanted("nightly", *line, DUE.fired_through, NOW, DUE.revision)
    assert fire(TURN, facts(times=None)) == Decision(wanted)
    assert fire(TURN, facts(replace(DUE, due=after(1)), times=None)) == Decision(Fired("nightly"))


def test_a_schedule_whose_times_cannot_be_worked_out_is_put_off():
    decision = fire(TURN, facts(times=Times(DUE.revision, fault="no calendar")))
    assert decision.reply == Fired("nightly", error="no calendar", first=True)
    assert decision.changes == (
        PutRow(replace(DUE, due=after(1), error="no calendar", tries=1, revision=6)),
    )


REFUSING = [
    (queue(items=3, max_items=3), "node full (3)"),
    (queue(publish_paused=True), "publish paused: publishing to this node is paused"),
    (
        queue(type="urn:other"),
        "wrong payload: payloads of this node are in the namespace urn:other",
    ),
]


@pytest.mark.parametrize(("node", "words"), REFUSING, ids=[words for _, words in REFUSING])
def test_a_node_that_refuses_leaves_the_time_due_and_is_tried_again(node, words):
    decision = fire(TURN, facts(node=node))
    assert decision.reply == Fired("nightly", error=words, first=True)
    assert decision.changes == (
        PutRow(replace(DUE, due=after(1), error=words, tries=1, revision=6)),
    )


def test_a_node_that_is_gone_is_waited_for():
    gone = PublishFacts(NOW, None, Affiliation.NONE, subscribed=False, existing=())
    decision = fire(TURN, facts(publish=gone))
    assert kept(decision).error == "node not found"
    assert kept(decision).fired_through == DUE.fired_through


@pytest.mark.parametrize(("tries", "seconds"), [(0, 1), (1, 2), (5, 32), (6, 60), (900, 60)])
def test_the_pause_between_two_tries_doubles_up_to_a_minute(tries, seconds):
    decision = fire(TURN, facts(replace(DUE, tries=tries), node=queue(publish_paused=True)))
    assert kept(decision).due == after(seconds)
    assert decision.reply.first is (tries == 0)


def test_an_id_that_is_known_with_this_payload_makes_no_second_item():
    decision = fire(TURN, facts(known=Known.FINISHED))
    assert added(decision) == []
    assert kept(decision).fired_through == after(-10)


def test_the_subscribers_of_a_plain_node_are_notified():
    decision = fire(TURN, facts(node=plain(access_model="open")))
    assert len(added(decision)) == 1
    assert isinstance(decision.reply, Fired)


def test_an_administrator_publishes_beside_the_times_and_settles_none():
    decision = fire_now(FireNow(who("boss@x", admin=True), "nightly"), facts(pending=()))
    assert decision.reply == Fired("nightly", f"nightly@{stamp(NOW)}")
    assert [type(change) for change in decision.changes] == [AddItem]
    assert decision.changes[0].publisher == "queue.example"


def test_an_account_that_is_not_an_administrator_is_refused():
    reply = fire_now(FireNow(who("boss@x"), "nightly"), facts()).reply
    assert isinstance(reply, Refused)
    assert reply.refusal is Refusal.FORBIDDEN


def test_a_missing_schedule_or_a_refused_publish_is_reported():
    by = who("boss@x", admin=True)
    none = fire_now(FireNow(by, "nightly"), facts(None, publish=None)).reply
    full = fire_now(FireNow(by, "nightly"), facts(node=queue(publish_paused=True))).reply
    assert (none.refusal, full.refusal) == (Refusal.ITEM_NOT_FOUND, Refusal.PUBLISH_PAUSED)


MINUTE = 60_000


@st.composite
def days(draw):
    """A run: the clock's steps, forward and back, and at each whether the node accepts the publish."""
    steps = st.tuples(
        st.sampled_from([0, 1, 30_000, MINUTE, 5 * MINUTE, 200 * MINUTE, -MINUTE, -90 * MINUTE]),
        st.booleans(),
        st.booleans(),
    )
    return draw(st.lists(steps, max_size=40)), draw(st.sampled_from(Missed))


@given(days())
def test_under_any_clock_and_any_death_each_time_is_published_once_at_most(run):
    """A decision that is not kept is that of a process that was killed before its commit."""
    steps, missed = run
    now = 1_000 * MINUTE
    schedule = replace(missing(missed), fired_through=now, due=now + MINUTE)
    published, through = [], [schedule.fired_through]
    for step, takes, dies in steps:
        now = max(MINUTE, now + step)
        times = range(schedule.fired_through // MINUTE + 1, now // MINUTE + 1)
        pending = tuple(time * MINUTE for time in times)[-100:]
        following = (max(now, schedule.fired_through) // MINUTE + 1) * MINUTE
        node = queue(publish_paused=not takes)
        moment = chosen(missed, pending, now)
        existing = ((Known.NEW, None),)
        publish = moment and PublishFacts(
            now, node, Affiliation.NONE, subscribed=False, existing=existing
        )
        known = Times(schedule.revision, pending, following=following)
        found = FireFacts(now, SERVICE, schedule, known, publish or None)
        decision = fire(TURN, found)
        if dies or not decision.changes:
            continue
        schedule = kept(decision)
        through.append(schedule.fired_through)
        published += [item.draft.id for item in added(decision)]
        if added(decision):
            assert schedule.last == moment
        if missed is Missed.ONCE and added(decision):
            assert schedule.due > now
        if missed is Missed.SKIP and added(decision):
            assert now - moment < MINUTE
    assert len(published) == len(set(published))
    assert through == sorted(through)
    assert published == sorted(published)


def test_an_item_is_of_the_group_that_the_schedule_names():
    assert draft_of(replace(NIGHTLY.definition, group="nights"), NOW).group == "nights"
    assert draft_of(NIGHTLY.definition, NOW).group == ""


def test_an_item_s_id_has_the_time_in_utc():
    assert draft_of(NIGHTLY.definition, 1_795_316_400_000).id == "nightly@2026-11-22T03:00:00Z"
    assert draft_of(NIGHTLY.definition, 1_795_316_400_123).id == "nightly@2026-11-22T03:00:00.123Z"
    assert NIGHTLY.definition.node == JOBS
