"""The commands that run queues, as far as no server is needed: what they import, say of themselves, and print."""

import asyncio
import re
import subprocess
import sys
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner
from harness.documents.documented import ROOT
from harness.operators.base_commands import DONE
from harness.operators.base_commands import ELSEWHERE as TRIED_ELSEWHERE

from pubqueue import cli
from pubqueue.admin.session import Page
from pubqueue.cli import COMMANDS, OPERATING, main, operations
from pubqueue.cli.operations import BESIDE, ELSEWHERE, Call, command_of, question_of
from pubqueue.cli.operations import COMMANDS as MADE
from pubqueue.operations.model import NODE, Cell, Parameter, ParameterKind
from pubqueue.operations.table import OPERATIONS

LISTS = (
    *(
        "overview",
        "queues",
        "items",
        "dead",
        "reasons",
        "deaths",
        "peek",
        "item",
        "workers",
        "events",
        "service",
        "connections",
        "members",
        "registrations",
        "kept-messages",
    ),
    *("schedules", "schedule-show"),
)


@pytest.mark.parametrize("name", LISTS)
def test_the_documentation_names_every_key(name):
    page = (ROOT / "docs" / "operations" / "command-line.md").read_text()
    keys = ", ".join(column.name for column in OPERATIONS[name].columns)
    assert f"| {keys} |" in page


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_completion_for_each_shell(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_PUBQUEUE_COMPLETE={shell}_complete" in result.output


def test_each_command_without_an_extra_is_tried_without_any():
    """By tests/e2e/test_base_install.py."""
    by_hand = {name for name, (_, extra) in COMMANDS.items() if not extra}
    assert by_hand | MADE.keys() == DONE.keys() | TRIED_ELSEWHERE


def test_the_commands_need_nothing_that_the_service_needs():
    """In a process in which the libraries of the service cannot be imported."""
    modules = sorted({OPERATING, *(module for module, extra in COMMANDS.values() if not extra)})
    lacking = ["aiohttp", "aiosqlite", "lxml", "cronsim", "prometheus_client", "sdnotify", "uvloop"]
    code = (
        "import sys, importlib\n"
        f"sys.modules.update(dict.fromkeys({lacking}))\n"
        f"for name in {modules}: importlib.import_module(name)\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


@pytest.mark.parametrize("name", ["purge", "redrive", "discard"])
def test_without_a_terminal_a_change_needs_yes(name):
    result = CliRunner().invoke(main, [name, "jobs"], env={"PUBQUEUE_URL": ""})
    assert result.exit_code == 2
    assert result.output.endswith("Pass --yes to confirm.\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["cancel", "jobs", "a", "b", "a"],
            "2 named items of jobs will be removed, including those that workers hold. This cannot be undone.",
        ),
        (
            ["release", "jobs", "a"],
            "1 named item of jobs will be unlocked. Other workers can get them at once, and no failure is counted.",
        ),
        (
            ["schedule", "remove", "nightly"],
            "1 schedule will be removed: nightly. This cannot be undone.",
        ),
    ],
)
def test_what_is_named_is_asked_about_too(words, sentence):
    result = CliRunner().invoke(main, words, env={"PUBQUEUE_URL": ""})
    assert (result.exit_code, result.stderr) == (
        2,
        f"pubqueue: {sentence} Pass --yes to confirm.\n",
    )


def test_every_operation_is_on_the_command_line():
    by_path = {one.command or name for name, one in OPERATIONS.items() if name not in ELSEWHERE}
    made = {
        " ".join((name, *below))
        for name, one in MADE.items()
        for below in ([(each,) for each in one.commands] if isinstance(one, click.Group) else [()])
    }
    beside = {f"{group} {one.name}" for group, commands in BESIDE.items() for one in commands}
    assert made == by_path | beside
    assert by_path & beside == set()
    assert set(main.list_commands(click.Context(main))) == {*COMMANDS, *MADE}
    assert COMMANDS.keys() & MADE.keys() == set()


def test_without_the_libraries_of_clients_the_others_are_listed(monkeypatch):
    monkeypatch.setattr(cli, "OPERATING", "no_such_library")
    assert main.list_commands(click.Context(main)) == sorted(COMMANDS)
    result = CliRunner().invoke(main, ["purge", "jobs"])
    assert (result.exit_code, result.stderr) == (
        *(
            2,
            "pubqueue: purge needs pip install --force-reinstall pubqueue (no module no_such_library)\n",
        ),
    )


def test_an_operation_is_a_command_by_itself():
    new = replace(
        OPERATIONS["release"],
        name="frob",
        label="Frob items",
        about="They are frobbed.",
        command="",
        manual="",
        parameters=(NODE, Parameter("deep", ParameterKind.FLAG, "Frob deeply")),
        sure="All of {} will be frobbed.",
    )
    command = command_of(new)
    text = CliRunner().invoke(command, ["--help"]).output
    assert text.startswith("Usage: frob [OPTIONS] NODE\n\n  Frob items.\n\n  They are frobbed.\n")
    assert "--deep" in text
    assert "Frob deeply." in text
    result = CliRunner().invoke(command, ["jobs"])
    assert (result.exit_code, result.stderr) == (
        *(2, "pubqueue: All of jobs will be frobbed. Pass --yes to confirm.\n"),
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["schedule", "add", "weekly", "--cron=0 3 * * *"], "Missing option '--node'."),
        (["release", "jobs"], "Missing argument 'ITEM...'."),
        (["node", "set", "jobs"], "Missing argument 'SETTING=VALUE...'."),
        (["purge"], "Missing argument 'NODE'."),
    ],
)
def test_what_is_necessary_is_asked_for(words, sentence):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {sentence}\n")


def test_a_value_may_begin_with_a_minus():
    words = ("schedule", "add", "weekly", "--cron=0 3 * * *", "--node=jobs", "--payload={}")
    result = CliRunner().invoke(main, [*words, "--priority", "-2"], env={"PUBQUEUE_URL": ""})
    assert result.exit_code == 2
    assert "not known where the service is" in result.stderr


# --- what is asked before something is taken away --------------------------------------------------


TAKING_AWAY = sorted(name for name, one in OPERATIONS.items() if one.takes_away)
SEVEN = 7


class Rows:
    """A link to a service in which every number is seven, and every text the one that is asked for."""

    async def pages(self, operation, _given, _most=None):
        cells = {one.name: SEVEN if one.cell is Cell.COUNT else "jobs" for one in operation.columns}
        yield Page("", (cells,))


@pytest.mark.parametrize("name", TAKING_AWAY)
@pytest.mark.parametrize("named", [True, False])
def test_the_question_before_something_is_taken_away_has_how_much(name, named, monkeypatch):
    operation = OPERATIONS[name]
    monkeypatch.setattr(operations, "run", lambda _where, work: asyncio.run(work(Rows())))
    needed = [one for one in operation.parameters if one.required or (named and one.name == "item")]
    given = {one.name: ("jobs",) for one in needed}
    sentence, counted = question_of(operation)(operation, Call(None, given, False, None, False))  # noqa: FBT003
    assert re.search(rf"\b({SEVEN}|1)\b", counted()), counted()
    assert sentence.endswith(".")


@pytest.mark.parametrize("name", TAKING_AWAY)
def test_in_a_script_it_is_confirmed_by_an_option(name):
    operation = OPERATIONS[name]
    path = (operation.command or name).split()
    values = ["a@x" for one in operation.parameters if one.required]
    said = CliRunner().invoke(main, [*path, *values])
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.endswith(" Pass --yes to confirm.\n")
