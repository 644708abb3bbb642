"""The command line: its help, its options, and what it lacks."""

import click
import pytest
from cli.running import said
from click.testing import CliRunner

from pubqueue import __version__, cli
from pubqueue.cli import main
from pubqueue.stores import STORES

COMMANDS = main.list_commands(click.Context(main))


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
def test_help_is_complete_and_fits_a_terminal(arguments):
    result = CliRunner().invoke(main, [*arguments, "--help"], terminal_width=80)
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    assert "..." not in result.output.partition("\n")[2]
    for name in COMMANDS if not arguments else ["--help"]:
        assert name in result.output


def test_every_option_is_described():
    for command in COMMANDS:
        params = main.get_command(click.Context(main), command).params
        options = [one for one in params if one.name != "help" and isinstance(one, click.Option)]
        assert all(param.help and param.help.endswith(".") for param in options)


def test_the_version():
    assert CliRunner().invoke(main, ["--version"]).output == f"pubqueue, version {__version__}\n"


@pytest.mark.parametrize("arguments", [["--secret", "x"], ["--colour"], ["serve", "--secret=x"]])
async def test_the_secret_is_no_flag_for_all_to_see(arguments):
    code, out, err = await said(*arguments)
    assert (code, out) == (2, "")
    assert "No such option" in err


def test_the_stores_to_choose_from_are_those_there_are():
    said = " ".join(CliRunner().invoke(main, ["serve", "--help"]).output.split())
    assert all(written in said for written, _ in STORES.values())


async def test_a_command_without_its_libraries_names_what_to_install(monkeypatch):
    monkeypatch.setitem(cli.COMMANDS, "migrate", ("no_such_library", "server"))
    result = CliRunner().invoke(main, ["migrate", "sqlite:///a", "--whatever"])
    assert result.exit_code == 2
    assert (
        "migrate needs pip install 'pubqueue[server]' (no module no_such_library)" in result.output
    )
    assert "Needs pip install" in CliRunner().invoke(main, ["--help"]).output
