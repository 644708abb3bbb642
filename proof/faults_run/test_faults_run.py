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


@pytest.mark.e2e
def test_nothing_is_lost():
    result = CliRunner().invoke(main, ["--items", "300", "--seed", "3"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for fault in OF_DISKS:
        assert re.search(f"{fault.value} +│ +[1-9] │ +[1-9]", result.output)
    assert re.search("refused writes have cost a batch +│ +[1-9] │ +[1-9]", result.output)
    assert re.search("lost +│ +0 │ +0 │", result.output)
    assert re.search("counts kept in the store +│ as counted │ as counted", result.output)


@pytest.mark.e2e
def test_nothing_is_lost_by_two_instances_whose_database_is_killed():
    asked = "--items 200 --seed 3 --server ejabberd --store postgres --instances 2"
    result = CliRunner().invoke(main, asked.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for fault in OF_DATABASES + OF_DISKS:
        assert re.search(f"{fault.value} +│ +[1-9]", result.output)
    assert re.search("locked twice at one time +│ +0 │", result.output)


def test_a_plan_follows_from_its_seed_and_has_every_fault():
    assert Plan(300, 7).faults() == Plan(300, 7).faults() != Plan(300, 8).faults()
    assert {fault for _, fault in Plan(300, 7).faults()} == set(ROUND)
    assert sorted(Plan(50, 1).ids(0) + Plan(50, 1).ids(1)) == sorted(
        f"p{n % 2}-{n}" for n in range(50)
    )


@pytest.fixture
def notes(tmp_path: Path):
    lines = [
        *("given p0-0 1 1 10", "result p0-0 1 1 11", "done p0-0 1 1 12"),
        *("given p1-1 2 1 20", "given p1-1 3 2 30", "result p1-1 3 2 31", "done p1-1 3 2 32"),
    ]
    (tmp_path / "bee.notes").write_text("\n".join([*lines, "given p1-1 3"]))
    notes = Notes(tmp_path)
    notes.read()
    return notes


def test_an_outcome_is_judged(notes: Notes):
    good = RunResult(
        plan=Plan(2, 1),
        server="prosody",
        seconds=1,
        faults=Counter(),
        confirmed=frozenset({"p0-0", "p1-1"}),
        repeated=0,
        notes=notes,
        store=Count({}, ()),
    )
    assert good.good
    assert notes.redelivered == 1

    third = replace(good, plan=Plan(3, 1), confirmed=good.confirmed | {"p0-2"})
    assert (third.lost, third.good) == ({"p0-2"}, False)
    there = replace(third, store=Count({("jobs", "p0-2"): "queued"}, ()))
    assert (there.lost, there.good) == (set(), False)
    undone = replace(good, store=Count({("jobs", "p0-0"): "queued"}, ()))
    assert (undone.undone, undone.good) == ({"p0-0"}, False)
    assert not replace(good, store=Count({}, ("jobs counts 1 items",))).good

    again = ("unlocked", "p0-0"), ("delivered", "p0-0"), ("completed", "p0-0")
    assert replace(good, events=(("delivered", "p0-0"), *again)).good
    log = (("delivered", "p0-0"), *again[1:])
    assert replace(good, events=log).locked_twice == ["p0-0"]
    assert not replace(good, events=log).good

    with notes.path("bee").open("a") as file:
        file.write(" 2 40\ngiven p0-0 4 2 50\n")
    notes.read()
    assert good.undone == {"p0-0"}
