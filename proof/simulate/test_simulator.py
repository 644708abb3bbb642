"""The simulator would see a broken promise, and shows it again; `tests/engine/test_simulated.py` is a short form of `make simulate`."""

from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from random import Random
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from cronsim import CronSim
from harness import virtual_time
from harness.batches.facts import JOBS, who
from harness.batches.inside import session_in
from harness.batches.queue_requests import a_queue, publishes
from msgspec.structs import replace

from proof.simulate import __main__ as command_line
from proof.simulate import run, shrink
from proof.simulate.__main__ import main
from proof.simulate.instance import Instance
from proof.simulate.network import Network
from proof.simulate.oracle import ASKED_LESS, FORGOTTEN, UNDELIVERED, Oracle
from proof.simulate.places import SqlitePlace
from proof.simulate.plan import CLIENTS, COMMITTED, INSTANCES, Fault, FaultKind, draw
from proof.simulate.report import command, reported
from proof.simulate.words import Ask
from proof.simulate.world import World
from pubqueue.engine import cron_times, dispatch
from pubqueue.engine.batch import FAILED, Batch
from pubqueue.engine.broker import Batches, Broker
from pubqueue.engine.reaper import OtherProcesses
from pubqueue.engine.redelivery import Undelivered
from pubqueue.model.changes import Lock
from pubqueue.model.decision import Done, Published
from pubqueue.model.entities import Millis
from pubqueue.model.records import MAX_SETTLED_REMEMBERED
from pubqueue.rules import feed, schedules, settle_each
from pubqueue.rules.dispatch import dispatch as real_dispatch
from pubqueue.rules.nodes import Purge
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.take import Take
from pubqueue.stores.copying import sqlite
from pubqueue.stores.postgres.connection import ServerClock
from pubqueue.stores.sql.transaction import SqlTransaction
from pubqueue.stores.sqlite import instances as sqlite_instances
from pubqueue.stores.sqlite.in_memory import Instances

MINUTES = 2.0
LONGER = 3.0
SEEDS = range(1, 3)
FROM = {"submit": 1, "dispatch": 1, "into": 1, "start": 11, "go_on": 3, "stream_broke": 4}
"""Where the search for a planted defect begins, so that it does not take long."""


def go(seed, store="sqlite", minutes=MINUTES, **more):
    return run.Run(seed, store, minutes=minutes, **more).run()


def test_all_promises_are_kept_on_postgresql_in_a_short_run():
    outcome = run.Run(2, "postgres", minutes=1.0).run()
    assert outcome.violation == ""
    assert (outcome.completed > 10, outcome.faults.total() > 1) == (True, True)


def test_a_run_whose_clocks_were_only_set_back_has_its_time_to_drain():
    assert go(18, minutes=LONGER).violation == ""


def test_a_seed_replays_to_the_same_word_and_others_do_not():
    assert go(5).trace == go(5).trace != go(6).trace
    assert draw(5) == draw(5) != draw(6)


# --- planted defects -----------------------------------------------------------------------------


def all_published(request):
    return Published(request.node, tuple(draft.id for draft in request.drafts))


def confirms_early(broker, request, answer, submit=Broker.submit):
    if isinstance(request, Publish):
        answer(all_published(request))
        answer = mock.Mock()
    submit(broker, request, answer)


def locks_under_the_old_token(*asked, **more):
    return [
        replace(change, token=change.item.token)
        if isinstance(change, Lock) and change.item.token
        else change
        for change in real_dispatch(*asked, **more)
    ]


def hands_out_while_paused(node, hands_out=dispatch.hands_out):
    return hands_out(node and replace(node, config=replace(node.config, paused=False)))


def confirms_no_purge(broker, request, answer, submit=Broker.submit):
    if isinstance(request, Purge):
        answer(Done())
    else:
        submit(broker, request, answer)


def feeds_nothing(_request, _facts, _fed):
    """Nothing comes into the queue."""
    return ()


def does_nothing(*_given):
    """Neither look at others nor say anything again."""
    return ()


async def confirms_what_is_lost(_batches, taken, _whose, _problem, *, look):
    for request, answer in taken:
        if isinstance(request, Publish):
            answer(all_published(request))


@pytest.mark.parametrize(
    ("of", "name", "defect", "rule"),
    [
        (Broker, "submit", confirms_early, "publish confirmed before its commit"),
        (dispatch, "dispatch", locks_under_the_old_token, "locked without a new token"),
        (feed, "into", feeds_nothing, "publish confirmed before its commit"),
        (OtherProcesses, "start", does_nothing, "not drained"),
        (Undelivered, "go_on", does_nothing, UNDELIVERED),
        (Undelivered, "stream_broke", does_nothing, UNDELIVERED),
    ],
)
def test_a_planted_defect_is_found_and_its_seed_replays_to_it(monkeypatch, of, name, defect, rule):
    monkeypatch.setattr(of, name, defect)
    found = next(
        outcome for seed in range(FROM[name], FROM[name] + 20) if (outcome := go(seed)).violation
    )
    assert found.rule in {rule, UNDELIVERED}
    again = go(found.seed)
    assert (again.violation, again.at, again.trace) == (found.violation, found.at, found.trace)


def walks_with_the_zone(cron, zone, begin, *, reverse):
    local = datetime.fromtimestamp(begin // 1000, UTC).astimezone(ZoneInfo(zone))
    for moment in CronSim(cron, local, reverse):
        yield Millis(round(moment.timestamp()) * 1000)


def trusts_every_operation(tx, operation, *given):
    return operation(session_in(tx), *given)


def loads_for_one_request(batch, requests, at, decide=Batch.decide):
    """Whatever fails is blamed on the request whose turn it is, and the others are committed."""
    try:
        return decide(batch, requests, at)
    except Exception:
        return FAILED


def test_a_full_disk_that_is_blamed_on_one_request_is_found(monkeypatch):
    plan = [Fault(at, FaultKind.FULL, INSTANCES[at % 3], 20.0, 0) for at in range(20, 110, 10)]
    runs = [run.Run(seed, "sqlite", minutes=MINUTES, plan=plan) for seed in SEEDS]
    assert [one.run().violation for one in runs] == [""] * len(SEEDS)
    monkeypatch.setattr(SqlTransaction, "_do", trusts_every_operation)
    monkeypatch.setattr(Batch, "decide", loads_for_one_request)
    runs = (run.Run(seed, "sqlite", minutes=MINUTES, plan=plan) for seed in range(1, 10))
    assert next(outcome.rule for one in runs if (outcome := one.run()).violation)


async def waits_for_ever(_broker, end):
    await end


def test_an_end_that_waits_for_a_store_that_does_not_answer_is_found(monkeypatch):
    plan = [
        Fault(at + late, kind, INSTANCES[at // 40], 20.0, 0)
        for at in range(20, 120, 40)
        for kind, late in ((FaultKind.AWAY, 0), (FaultKind.RESTART, 1))
    ]
    assert [go(seed, plan=plan).violation for seed in SEEDS] == [""] * len(SEEDS)
    monkeypatch.setattr(Broker, "_in_time", waits_for_ever)
    assert {go(seed, plan=plan).rule for seed in SEEDS} == {"an end in order takes too long"}


def fires_again(schedule, through, due, settled=schedules.settle):
    return replace(settled(schedule, through, due), fired_through=schedule.fired_through)


def never(*_asked):
    """None of the times that have come is published."""


def test_a_calendar_that_goes_in_a_circle_is_found(monkeypatch):
    monkeypatch.setattr(cron_times, "_in_order", walks_with_the_zone)
    found = run.Run(1, "sqlite", minutes=14.0, plan=[]).run()
    assert found.rule == "the log tells of a fault of ours"
    assert "schedule.calendar_failed" in found.violation
    monkeypatch.undo()
    assert run.Run(1, "sqlite", minutes=14.0, plan=[]).run().violation == ""


@pytest.mark.parametrize(
    ("name", "defect", "rule"),
    [
        ("settle", fires_again, "a time of a schedule was published twice"),
        ("chosen", never, "a time of a schedule was not published"),
    ],
)
def test_a_time_that_is_published_twice_or_never_is_found(monkeypatch, name, defect, rule):
    monkeypatch.setattr(schedules, name, defect)
    assert go(1, minutes=LONGER, plan=[]).rule == rule


@pytest.mark.parametrize(
    ("of", "name", "defect", "rule"),
    [
        (dispatch, "hands_out", hands_out_while_paused, "handed out while paused"),
        (Broker, "submit", confirms_no_purge, "purge confirmed, and items are there"),
    ],
)
def test_a_defect_in_what_the_owner_asks_for_is_found(monkeypatch, of, name, defect, rule):
    plan = [
        Fault(at, kind, node, 20.0, 0)
        for at in range(20, 110, 15)
        for kind, node in ((FaultKind.PAUSE, "jobs"), (FaultKind.PURGE, "orders"))
    ]
    assert all(go(seed, plan=plan).violation == "" for seed in SEEDS)
    monkeypatch.setattr(of, name, defect)
    assert {go(seed, plan=plan).rule for seed in SEEDS} == {rule}


def forgets(_request, _facts, decision):
    """Note nothing of what is settled."""
    return decision


def locks_as_long_as_the_queue_allows(node, ready, subscriptions, **more):
    same = [replace(one, lock_timeout=None) for one in subscriptions]
    return real_dispatch(node, ready, same, **more)


LOST_ANSWERS = [
    Fault(at, FaultKind.DEAF, whom, 0.0, 2)
    for at in range(15, 110, 5)
    for whom in ("bob@x/1", "eva@x/1")
]
"""Answers that do not come to those whose settles are remembered."""


@pytest.mark.parametrize(
    ("of", "name", "defect", "rule"),
    [
        (settle_each, "_remembered", forgets, FORGOTTEN),
        (dispatch, "dispatch", locks_as_long_as_the_queue_allows, ASKED_LESS),
    ],
)
def test_a_defect_in_how_locks_end_is_found(monkeypatch, of, name, defect, rule):
    assert [go(seed, plan=LOST_ANSWERS).violation for seed in SEEDS] == [""] * len(SEEDS)
    monkeypatch.setattr(of, name, defect)
    assert {go(seed, plan=LOST_ANSWERS).rule for seed in SEEDS} == {rule}


UNANSWERED = [
    Fault(15, FaultKind.PURGE, "orders", 0.0, 0),
    Fault(27, FaultKind.PURGE, "orders", 0.0, 0),
    *(
        Fault(at, FaultKind.REFUSE, INSTANCES[number], 2.5, 0)
        for at, number in ((17, 1), (17, 2), (21, 0), (29, 1), (33, 0), (33, 1), (33, 2))
    ),
]
"""Eva settles what is gone, by no token, while the store has refused what she wants remembered."""


def test_a_worker_that_names_no_lock_has_none_of_its_others_forgotten():
    assert go(2, minutes=1.0, plan=UNANSWERED).violation == ""


async def settled_twice(place, oracle, **first):
    """Have an item retracted as `first` says, and again by its token, which is to be remembered."""
    instance = Instance(place, Network(Random(1)), oracle, Random(1))
    await instance.start()
    process = instance.process
    for request in (a_queue(event_log=1), publishes("a"), Take(who("gus@x/1"), JOBS)):
        reply = await process.broker.handle(request)
    ((item, _),) = reply.items
    said = Settle(who("gus@x/1"), JOBS, (item.id,), Verb.RETRACT)
    by_token = {"token": item.token, "remember": MAX_SETTLED_REMEMBERED}
    for number, how in enumerate(({"token": item.token, **first}, by_token)):
        process.hear(Ask(said.by.jid, number, replace(said, **how)))
        await process.broker.handle(publishes("b"))  # is answered after it
    instance.end()


@pytest.mark.parametrize(
    ("first", "rules"),
    [
        ({"token": None}, []),
        ({"remember": None}, []),
        ({"remember": MAX_SETTLED_REMEMBERED}, [FORGOTTEN]),
    ],
)
def test_only_what_is_asked_to_be_remembered_must_not_be_forgotten(monkeypatch, first, rules):
    monkeypatch.setattr(settle_each, "_remembered", forgets)
    broken = []
    with closing(SqlitePlace()) as place:
        virtual_time.run(settled_twice(place, Oracle(place, broken.append), **first))
    assert [what.partition(":")[0] for what in broken] == rules


def test_a_number_that_is_lost_without_a_fence_is_found(monkeypatch):
    plan = [
        fault
        for at in range(20, 110, 12)
        for whom in INSTANCES[:2]
        for fault in (
            Fault(at, FaultKind.LOST, whom, 0.0, 0),
            Fault(at + 6, FaultKind.CRASH, whom, 1.0, COMMITTED),
        )
    ]
    assert [go(seed, plan=plan).violation for seed in SEEDS] == [""] * len(SEEDS)
    monkeypatch.setattr(Instances, "see_that_it_serves", does_nothing)
    rules = (go(seed, plan=plan).rule for seed in range(70, 100))
    assert UNDELIVERED in rules  # up to the first seed that shows it


@pytest.mark.parametrize("wrong", [-600, 600])
def test_deadlines_by_the_clocks_of_machines_are_found(monkeypatch, wrong):
    plan = [
        Fault(at, FaultKind.SKEW, INSTANCES[number], 1.0, size)
        for number, (at, size) in enumerate([(20, wrong), (40, 0), (60, -45)])
    ]
    assert [go(seed, "clocked", plan=plan).violation for seed in SEEDS] == [""] * len(SEEDS)
    monkeypatch.setattr(ServerClock, "note_time", does_nothing)
    early = {"a lock was ended early", "a lock was over when it was given"}
    assert {go(seed, "clocked", plan=plan).rule for seed in SEEDS} & early


HALVES = [Fault(at, FaultKind.COPY, INSTANCES[at % 3], 15.0, at / 200) for at in (30, 80, 130)]
"""Copies that end in the middle, and are begun again."""


def copied(seed):
    return run.Run(seed, "sqlite", minutes=MINUTES, plan=HALVES).run()


def test_a_store_may_be_copied_from_place_to_place():
    outcome = copied(1)
    assert (outcome.violation, outcome.faults[FaultKind.COPY]) == ("", len(HALVES))


def test_an_instance_that_serves_from_a_half_copy_is_found(monkeypatch):
    monkeypatch.setattr(sqlite_instances, "see_that_it_is_nobodys", does_nothing)
    assert {copied(seed).rule for seed in SEEDS} & {
        "publish confirmed before its commit",
        "a publisher or the owner was refused",
    }


def test_a_copy_that_does_not_fit_an_empty_store_is_found(monkeypatch):
    monkeypatch.setattr(sqlite.SqlitePlace, "is_empty", lambda _place: False)
    assert copied(1).rule == "a store cannot be copied to an empty one"


def test_the_judge_finds_by_the_histories_of_clients_alone_what_is_lost(monkeypatch):
    monkeypatch.setattr(Batches, "_lose", confirms_what_is_lost)
    monkeypatch.setattr(Oracle, "broken", does_nothing)
    found = next(outcome for seed in range(8, 20) if (outcome := go(seed)).violation)
    assert (found.rule, "lost" in found.violation) == (run.BY_JUDGE, True), found.violation


def test_a_plan_is_shrunk_until_nothing_can_be_left_out(monkeypatch):
    monkeypatch.setattr(Batches, "_lose", confirms_what_is_lost)
    found = next(outcome for seed in range(8, 20) if (outcome := go(seed)).violation)
    shortest = shrink.shrink(found)
    assert shortest.rule == found.rule == "publish confirmed before its commit"
    plan = list(shortest.plan)
    assert {FaultKind.REFUSE, FaultKind.FULL} & {fault.kind for fault in plan}
    assert len(plan) < len(found.plan)
    for at in range(len(plan)):
        assert go(found.seed, plan=plan[:at] + plan[at + 1 :]).rule != found.rule
    assert go(found.seed, plan=plan).violation == shortest.violation
    whole = draw(found.seed, MINUTES)
    numbers = ",".join(str(whole.index(fault)) for fault in plan)
    line = f"make simulate SEED={found.seed} STORE=sqlite HOURS=0.1 ONLY={numbers}"
    assert command(shortest) == line
    assert list(reported(shortest))[-len(plan) :] == [fault.reported() for fault in plan]


def test_the_command_repeats_a_run_and_reports_the_broken_promise(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(command_line, "Run", partial(run.Run, minutes=MINUTES))
        result = CliRunner().invoke(main, ["--hours", "0.1", "--store", "sqlite", "--only", "-"])
    assert (result.exit_code, "promises broken" in result.output) == (0, True), result.output
    monkeypatch.setattr(Broker, "submit", confirms_early)
    result = CliRunner().invoke(main, ["--hours", "0.1", "--store", "sqlite"])
    assert result.exit_code == 1
    assert "repeat it: make simulate SEED=1 STORE=sqlite HOURS=0.1 ONLY=-\n" in result.output


def test_every_instance_with_a_fault_takes_part(tmp_path):
    async def made(place):
        return World(1, place, mock.Mock(), tmp_path)

    with closing(SqlitePlace()) as place:
        world = virtual_time.run(made(place))
        assert [client.jid for client in world.clients] == list(CLIENTS)
        assert len(world.instances) == len(INSTANCES)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_fault_can_be_reported(kind):
    fault = Fault(61.5, kind, "instance 1", 2.0, 1)
    assert fault.reported().startswith("  1:01.500  ")


def test_a_crash_can_come_at_every_step():
    steps = {
        fault.size for seed in range(40) for fault in draw(seed) if fault.kind is FaultKind.CRASH
    }
    assert steps == set(range(COMMITTED + 4))
