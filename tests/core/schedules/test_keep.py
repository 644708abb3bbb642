"""Schedules are created, changed, paused and ended: permissions, and the effect on their times."""

import pytest
from harness.batches.facts import JOBS, NIGHTLY, NOW, after, who
from msgspec.structs import replace

from pubqueue.model.changes import DropRow, PutRow
from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.schedules import Schedule, SchedulePage, SchedulesDeclared, Source
from pubqueue.rules.schedules import (
    AddSchedule,
    ChangeSchedule,
    DeclareFacts,
    DeclareSchedules,
    KeepFacts,
    ListSchedules,
    PauseSchedule,
    RemoveSchedule,
    SchedulesFacts,
    add_schedule,
    change_schedule,
    declare_schedules,
    fault_of,
    list_schedules,
    pause_schedule,
    remove_schedule,
)

ADMIN = who("boss@x/desk", admin=True)
SERVICE = who("queue.example", admin=True)
WHAT = NIGHTLY.definition
KNOWN = replace(NIGHTLY, fired_through=after(-500), due=after(-100), revision=4)
OF_FILE = replace(KNOWN, source=Source.FILE)
NEXT = after(900)


def facts(schedule=None, **changes):
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
    assert rule(request_, facts(known)).changes
    assert refused(rule(replace(request_, by=who("boss@x")), facts(known))) is Refusal.FORBIDDEN


def test_the_list_is_for_administrators():
    page = SchedulesFacts(NOW, (KNOWN,), more=True)
    assert list_schedules(ListSchedules(ADMIN), page).reply == SchedulePage(NOW, (KNOWN,), True)  # noqa: FBT003
    assert refused(list_schedules(ListSchedules(who("boss@x")), page)) is Refusal.FORBIDDEN
    gone = list_schedules(ListSchedules(ADMIN, name="gone"), SchedulesFacts(NOW, ()))
    assert gone.reply == Refused(Refusal.ITEM_NOT_FOUND, "there is no schedule 'gone'")


def test_a_new_one_has_missed_nothing():
    made = put(add_schedule(AddSchedule(ADMIN, WHAT), facts()))
    assert made == Schedule(WHAT, Source.COMMAND, "boss@x", NOW, due=NOW)


def test_a_name_is_given_once():
    assert refused(add_schedule(AddSchedule(ADMIN, WHAT), facts(KNOWN))) is Refusal.ITEM_EXISTS


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
    assert refused(add_schedule(AddSchedule(ADMIN, what), facts(**changes))) is refusal


def test_other_times_count_from_now_on():
    other = replace(WHAT, cron="0 4 * * *")
    made = put(change_schedule(ChangeSchedule(ADMIN, other), facts(replace(KNOWN, tries=3))))
    assert (made.fired_through, made.due, made.tries, made.revision) == (NOW, NOW, 0, 5)


def test_another_payload_leaves_what_is_missed():
    other = replace(WHAT, payload=b"<other/>")
    made = put(change_schedule(ChangeSchedule(ADMIN, other), facts(KNOWN)))
    assert made == replace(KNOWN, definition=other, revision=5)


def test_the_settled_time_only_increases_even_if_the_clock_is_set_back():
    ahead = replace(KNOWN, fired_through=after(5_000))
    other = replace(WHAT, cron="0 4 * * *")
    assert put(change_schedule(ChangeSchedule(ADMIN, other), facts(ahead))).fired_through == after(
        5_000
    )
    paused = put(pause_schedule(PauseSchedule(ADMIN, "nightly", paused=True), facts(ahead)))
    assert paused.fired_through == after(5_000)


@pytest.mark.parametrize(
    ("rule", "request_"), [(rule, asked) for rule, asked, _ in ASKED[1:]], ids=RULES[1:]
)
def test_a_missing_schedule_is_reported(rule, request_):
    assert refused(rule(request_, facts())) is Refusal.ITEM_NOT_FOUND


@pytest.mark.parametrize(("rule", "request_"), [ASKED[1][:2], ASKED[2][:2]])
def test_declared_schedules_are_changed_and_ended_only_in_the_file(rule, request_):
    assert refused(rule(request_, facts(OF_FILE))) is Refusal.ITEM_EXISTS


def test_an_end_is_the_end():
    decision = remove_schedule(RemoveSchedule(ADMIN, "nightly"), facts(KNOWN))
    assert decision == Decision(Done(), (DropRow(Schedule, "nightly"),))


def test_one_of_the_file_may_be_paused_and_nothing_is_missed_meanwhile():
    paused = put(pause_schedule(PauseSchedule(ADMIN, "nightly", paused=True), facts(OF_FILE)))
    assert (paused.paused, paused.due) == (True, None)
    resumed = put(pause_schedule(PauseSchedule(ADMIN, "nightly", paused=False), facts(paused)))
    assert (resumed.paused, resumed.fired_through, resumed.due) == (False, NOW, NOW)
    again = pause_schedule(PauseSchedule(ADMIN, "nightly", paused=False), facts(resumed))
    assert again == Decision(Done())


# --- the file ------------------------------------------------------------------------------------


def declare(definitions, *known, following=NEXT):
    found = {one.name: one for one in known}
    request = DeclareSchedules(SERVICE, tuple(definitions), (following,) * len(definitions))
    return declare_schedules(request, DeclareFacts(NOW, found))


def test_schedules_follow_the_configuration_file():
    gone = replace(OF_FILE, definition=replace(WHAT, name="gone"))
    by_command = replace(KNOWN, definition=replace(WHAT, name="mine"))
    decision = declare([WHAT], gone, by_command)
    assert decision.reply == SchedulesDeclared(made=("nightly",), ended=("gone",))
    assert decision.changes == (
        PutRow(Schedule(WHAT, Source.FILE, "queue.example", NOW, due=NEXT)),
        DropRow(Schedule, "gone"),
    )


def test_an_unchanged_declaration_writes_nothing():
    same = replace(OF_FILE, by="queue.example")
    assert declare([WHAT], same) == Decision(SchedulesDeclared())


def test_a_zone_that_changed_its_rules_brings_the_next_time_nearer():
    same = replace(OF_FILE, by="queue.example", due=NEXT)
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
    assert (back.due, back.fired_through) == (NEXT, NOW)


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
        ({"headers": (("a", "b"),) * 65}, "an item has at most 64 headers"),
    ],
)
def test_an_invalid_definition_is_explained(changes, words):
    assert fault_of(replace(WHAT, **changes)) == words
    assert WHAT.node == JOBS
