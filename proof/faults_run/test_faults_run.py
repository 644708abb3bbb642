"""The run of faults, a short one: nothing is lost. And it can fail: what it judges by is shown to judge."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from harness.stores.recount import Count

from proof.faults_run.__main__ import main
from proof.faults_run.notes import Notes
from proof.faults_run.plan import OF_DATABASES, OF_DISKS, ROUND, Plan
from proof.faults_run.run import RunResult
from proof.judge.history import History, Judgement


@pytest.mark.e2e
def test_nothing_is_lost():
    result = CliRunner().invoke(main, ["--items", "300", "--seed", "3"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for fault in OF_DISKS:
        assert re.search(f"{fault.value} +│ +[1-9] │ +[1-9]", result.output)
    assert re.search("refused writes have cost a batch +│ +[1-9] │ +[1-9]", result.output)
    assert re.search("the judge has found +│ +none │ +none │", result.output)
    assert re.search("counts kept in the store +│ as counted │ as counted", result.output)


@pytest.mark.e2e
def test_nothing_is_lost_by_two_instances_whose_database_is_killed():
    asked = "--items 200 --seed 3 --server ejabberd --store postgres --instances 2"
    result = CliRunner().invoke(main, asked.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for fault in OF_DATABASES + OF_DISKS:
        assert re.search(f"{fault.value} +│ +[1-9]", result.output)
    assert re.search("locked twice at one time +│ +0 │", result.output)


@pytest.mark.e2e
def test_nothing_is_lost_where_clients_of_all_protocols_share_the_queue():
    asked = "--items 200 --seed 5 --server ejabberd --faces all --instances 2"
    result = CliRunner().invoke(main, asked.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert re.search("the judge has found +│ +none │", result.output)


def test_a_plan_follows_from_its_seed_and_has_every_fault():
    assert Plan(300, 7).faults() == Plan(300, 7).faults() != Plan(300, 8).faults()
    assert {fault for _, fault in Plan(300, 7).faults()} == set(ROUND)
    assert sorted(Plan(50, 1).ids(0) + Plan(50, 1).ids(1)) == sorted(
        f"p{n % 2}-{n}" for n in range(50)
    )


@pytest.fixture
def notes(tmp_path: Path):
    """Two items, one of which comes twice; the histories are those of one publisher and one worker."""
    notes = Notes(tmp_path)
    etl, bee = (History(notes.path(name), name) for name in ("etl", "bee"))
    for name, attempts in (("p0-0", 1), ("p1-1", 2)):
        etl.begin("publish", "jobs", name, digest="d").end("ok")
        for attempt in range(1, attempts + 1):
            bee.deliver("jobs", name, digest="d", token=attempt, attempt=attempt)
        bee.begin("retract", "jobs", name, token=attempts).end("ok")
    bee.deliver("jobs", "p1-1", digest="d", token=2, attempt=2)
    with notes.path("bee").open("a") as file:
        file.write('{"op": "deliver", ')
    notes.read()
    return notes


def test_an_outcome_is_judged(notes: Notes):
    right = Judgement(("violations: none",), is_right=True)
    good = RunResult(
        plan=Plan(2, 1),
        server="prosody",
        seconds=1,
        faults=Counter(),
        confirmed=frozenset({"p0-0", "p1-1"}),
        repeated=0,
        notes=notes,
        judgement=right,
        store=Count({}, ()),
    )
    assert good.good
    assert (notes.redelivered, notes.late, notes.gone) == (2, 0, 0)

    assert not replace(good, plan=Plan(3, 1), confirmed=good.confirmed | {"p0-2"}).good
    assert not replace(good, store=Count({("jobs", "p0-0"): "queued"}, ())).good
    assert not replace(good, judgement=replace(right, is_right=False)).good
    assert not replace(good, store=Count({}, ("jobs counts 1 items",))).good

    again = ("unlocked", "p0-0"), ("delivered", "p0-0"), ("completed", "p0-0")
    assert replace(good, events=(("delivered", "p0-0"), *again)).good
    log = (("delivered", "p0-0"), *again[1:])
    assert replace(good, events=log).locked_twice == ["p0-0"]
    assert not replace(good, events=log).good

    with notes.path("bee").open("a") as file:
        file.write('"id": "p1-1", "attempt": 3}\n')
    notes.read()
    assert notes.redelivered == 3
