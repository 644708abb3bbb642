"""A firing of a schedule: which of its times is published, which are settled, and the effect of a refusal."""

import pytest
from harness.batches.facts import JOBS, NIGHTLY, NOW, after, plain, queue, who
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, DropRow, PutRow
from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.entities import Affiliation, State
from pubqueue.model.schedules import (
    Fired,
    Missed,
    Schedule,
    SchedulePage,
    SchedulesDeclared,
    Source,
    Times,
    TimesWanted,
    draft_of,
    stamp,
)
from pubqueue.rules.publication import Known, PublishFacts
from pubqueue.rules.schedules import (
    AddSchedule,
    ChangeSchedule,
    DeclareFacts,
    DeclareSchedules,
    FireFacts,
    FireNow,
    FireSchedule,
    KeepFacts,
    ListSchedules,
    PauseSchedule,
    RemoveSchedule,
    SchedulesFacts,
    add_schedule,
    change_schedule,
    chosen,
    declare_schedules,
    fault_of,
    fire,
    fire_now,
    list_schedules,
    pause_schedule,
    remove_schedule,
)

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


# Schedules are created, changed, paused and ended: permissions, and the effect on their times.

ADMIN = who("boss@x/desk", admin=True)
WHAT = NIGHTLY.definition
KNOWN = replace(NIGHTLY, fired_through=after(-500), due=after(-100), revision=4)
OF_FILE = replace(KNOWN, source=Source.FILE)
NEXT_TIME = after(900)


def keep_facts(schedule=None, **changes):
    return replace(KeepFacts(NOW, schedule), **changes)


def put(decision):
    (change,) = decision.changes
    assert isinstance(change, PutRow)
    return change.row


def refused(decision):
    assert decision.changes == ()
    return decision.reply.refusal


ASKED = [
    (add_schedule, AddSchedule(ADMIN, WHAT), None),
    (change_schedule, ChangeSchedule(ADMIN, WHAT), KNOWN),
    (remove_schedule, RemoveSchedule(ADMIN, "nightly"), KNOWN),
    (pause_schedule, PauseSchedule(ADMIN, "nightly", paused=True), KNOWN),
]
RULES = [rule.__name__ for rule, *_ in ASKED]


@pytest.mark.parametrize(("rule", "request_", "known"), ASKED, ids=RULES)
def test_only_administrators_may_change_schedules(rule, request_, known):
    assert rule(request_, keep_facts(known)).changes
    assert (
        refused(rule(replace(request_, by=who("boss@x")), keep_facts(known))) is Refusal.FORBIDDEN
    )


def test_the_list_is_for_administrators():
    page = SchedulesFacts(NOW, (KNOWN,), more=True)
    assert list_schedules(ListSchedules(ADMIN), page).reply == SchedulePage(NOW, (KNOWN,), True)  # noqa: FBT003
    assert refused(list_schedules(ListSchedules(who("boss@x")), page)) is Refusal.FORBIDDEN
    gone = list_schedules(ListSchedules(ADMIN, name="gone"), SchedulesFacts(NOW, ()))
    assert gone.reply == Refused(Refusal.ITEM_NOT_FOUND, "there is no schedule 'gone'")


def test_a_new_one_has_missed_nothing():
    made = put(add_schedule(AddSchedule(ADMIN, WHAT), keep_facts()))
    assert made == Schedule(WHAT, Source.COMMAND, "boss@x", NOW, due=NOW)


def test_a_name_is_given_once():
    assert refused(add_schedule(AddSchedule(ADMIN, WHAT), keep_facts(KNOWN))) is Refusal.ITEM_EXISTS


@pytest.mark.parametrize(
    ("what", "changes", "refusal"),
    [
        (WHAT, {"unfit": "cron '1' must have five fields"}, Refusal.BAD_REQUEST),
        (replace(WHAT, priority=1_000_001), {}, Refusal.BAD_REQUEST),
        (WHAT, {"has_node": False}, Refusal.NODE_NOT_FOUND),
        (WHAT, {"full": True}, Refusal.TOO_MUCH_STAGED),
    ],
)
def test_an_invalid_schedule_is_refused(what, changes, refusal):
    assert refused(add_schedule(AddSchedule(ADMIN, what), keep_facts(**changes))) is refusal


def test_other_times_count_from_now_on():
    other = replace(WHAT, cron="0 4 * * *")
    made = put(change_schedule(ChangeSchedule(ADMIN, other), keep_facts(replace(KNOWN, tries=3))))
    assert (made.fired_through, made.due, made.tries, made.revision) == (NOW, NOW, 0, 5)


def test_another_payload_leaves_what_is_missed():
    other = replace(WHAT, payload=b"<other/>")
    made = put(change_schedule(ChangeSchedule(ADMIN, other), keep_facts(KNOWN)))
    assert made == replace(KNOWN, definition=other, revision=5)


def test_the_settled_time_only_increases_even_if_the_clock_is_set_back():
    ahead = replace(KNOWN, fired_through=after(5_000))
    other = replace(WHAT, cron="0 4 * * *")
    assert put(
        change_schedule(ChangeSchedule(ADMIN, other), keep_facts(ahead))
    ).fired_through == after(5_000)
    paused = put(pause_schedule(PauseSchedule(ADMIN, "nightly", paused=True), keep_facts(ahead)))
    assert paused.fired_through == after(5_000)


@pytest.mark.parametrize(
    ("rule", "request_"), [(rule, asked) for rule, asked, _ in ASKED[1:]], ids=RULES[1:]
)
def test_a_missing_schedule_is_reported(rule, request_):
    assert refused(rule(request_, keep_facts())) is Refusal.ITEM_NOT_FOUND


@pytest.mark.parametrize(("rule", "request_"), [ASKED[1][:2], ASKED[2][:2]])
def test_declared_schedules_are_changed_and_ended_only_in_the_file(rule, request_):
    assert refused(rule(request_, keep_facts(OF_FILE))) is Refusal.ITEM_EXISTS


def test_an_end_is_the_end():
    decision = remove_schedule(RemoveSchedule(ADMIN, "nightly"), keep_facts(KNOWN))
    assert decision == Decision(Done(), (DropRow(Schedule, "nightly"),))


def test_one_of_the_file_may_be_paused_and_nothing_is_missed_meanwhile():
    paused = put(pause_schedule(PauseSchedule(ADMIN, "nightly", paused=True), keep_facts(OF_FILE)))
    assert (paused.paused, paused.due) == (True, None)
    resumed = put(pause_schedule(PauseSchedule(ADMIN, "nightly", paused=False), keep_facts(paused)))
    assert (resumed.paused, resumed.fired_through, resumed.due) == (False, NOW, NOW)
    again = pause_schedule(PauseSchedule(ADMIN, "nightly", paused=False), keep_facts(resumed))
    assert again == Decision(Done())


# --- the file ------------------------------------------------------------------------------------


def declare(definitions, *known, following=NEXT_TIME):
    found = {one.name: one for one in known}
    request = DeclareSchedules(SERVICE, tuple(definitions), (following,) * len(definitions))
    return declare_schedules(request, DeclareFacts(NOW, found))


def test_schedules_follow_the_configuration_file():
    gone = replace(OF_FILE, definition=replace(WHAT, name="gone"))
    by_command = replace(KNOWN, definition=replace(WHAT, name="mine"))
    decision = declare([WHAT], gone, by_command)
    assert decision.reply == SchedulesDeclared(made=("nightly",), ended=("gone",))
    assert decision.changes == (
        PutRow(Schedule(WHAT, Source.FILE, "queue.example", NOW, due=NEXT_TIME)),
        DropRow(Schedule, "gone"),
    )


def test_an_unchanged_declaration_writes_nothing():
    same = replace(OF_FILE, by="queue.example")
    assert declare([WHAT], same) == Decision(SchedulesDeclared())


def test_a_zone_that_changed_its_rules_brings_the_next_time_nearer():
    same = replace(OF_FILE, by="queue.example", due=NEXT_TIME)
    kept = put(declare([WHAT], same, following=after(300)))
    assert kept == replace(same, due=after(300), by="queue.example", revision=same.revision + 1)
    assert declare([WHAT], same, following=after(4_000)) == Decision(SchedulesDeclared())


def test_a_try_that_is_waited_for_is_not_brought_forward_by_a_start():
    waits = replace(OF_FILE, due=after(30), tries=4, error="node full")
    assert declare([WHAT], waits, following=after(-100)) == Decision(SchedulesDeclared())


def test_one_that_a_command_has_made_becomes_the_file_s():
    decision = declare([WHAT], KNOWN, following=KNOWN.due)
    assert decision.reply == SchedulesDeclared(changed=("nightly",))
    assert put(decision).source is Source.FILE


def test_a_pause_outlives_what_the_file_says():
    other = replace(WHAT, payload=b"<other/>")
    made = put(declare([other], replace(OF_FILE, paused=True, due=None)))
    assert (made.paused, made.due) == (True, None)


def test_one_that_is_not_enabled_has_nothing_to_do_and_begins_again_when_it_is():
    off = replace(WHAT, enabled=False)
    stopped = put(declare([off], OF_FILE))
    assert (stopped.due, stopped.fired_through) == (None, NOW)
    back = put(declare([WHAT], replace(stopped, fired_through=after(-400))))
    assert (back.due, back.fired_through) == (NEXT_TIME, NOW)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"name": ""}, "name has to be 1 to 255 bytes, without control characters"),
        ({"name": "a\nb"}, "name has to be 1 to 255 bytes, without control characters"),
        ({"name": "ä" * 128}, "name has to be 1 to 255 bytes, without control characters"),
        ({"node": ""}, "node is not a valid NodeID"),
        ({"payload": b""}, "a payload is required"),
        ({"priority": -1_000_001}, "priority goes from -1000000 to 1000000"),
        ({"ttl": -1}, "ttl must be a number of seconds, up to a hundred years"),
        ({"group": "a\nb"}, "group has to be 1 to 255 bytes, without control characters"),
        ({"group": "ä" * 128}, "group has to be 1 to 255 bytes, without control characters"),
        ({"headers": (("a", "b"),) * 105}, "an item has at most 104 headers"),
    ],
)
def test_an_invalid_definition_is_explained(changes, words):
    assert fault_of(replace(WHAT, **changes)) == words
    assert WHAT.node == JOBS
