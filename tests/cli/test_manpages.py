"""The manual: every command has a page, and `man` has nothing to say against any of them."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import click
import pytest

from pubqueue.cli import main, manpages


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return manpages.write(tmp_path_factory.mktemp("man"))


def test_every_command_has_a_page(written):
    names = {file.name for file in written}
    context = click.Context(main)
    groups = {
        name: main.get_command(context, name)
        for name in ("messages", "node", "outbox", "registration", "schedule", "user")
    }
    within = [f"{group}-{name}" for group, one in groups.items() for name in one.commands]
    commands = [*main.list_commands(context), *within]
    assert names == {"pubqueue.1", *(f"pubqueue-{name}.1" for name in commands)}


def test_man_shows_each_without_a_warning(written):
    def shown(file):
        command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(file)]
        return file.name, subprocess.run(command, capture_output=True, check=True)

    with ThreadPoolExecutor(2) as together:
        for name, result in together.map(shown, written):
            assert result.stderr == b"", (name, result.stderr)
            text = re.sub(".\b", "", result.stdout.decode())
            for part in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS"):
                assert f"\n{part}\n" in text, name


def test_a_page_has_the_text_of_help():
    page = manpages.pages()["pubqueue-redrive.1"]
    assert "Requeue dead items." in page
    assert "\\-\\-to NODE" in page
    assert "PUBQUEUE_URL" in page
    assert ".nf\nbash: eval" in manpages.pages()["pubqueue-completion.1"]


@pytest.mark.parametrize(
    ("text", "written"),
    [("a-b", "a\\-b"), ("a\\b", "a\\eb"), (".x", "\\&.x"), ("'x'", "\\&'x'"), ('"', "\\(dq")],
)
def test_nothing_is_an_instruction(text, written):
    assert manpages.escaped(text) == written
