"""The prose linter refuses what it should; `make check` reads the texts for users with it."""

import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def read(*files):
    """Return the exit code of the linter and what it prints."""
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "tools" / "prose", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("The queue hands out an item.", "'hands out': write deliver"),
        ("Whoever asks waits.", "'Whoever': write anyone who, or the noun"),
        ("This is no queue.", "'is no queue': write is not a ..."),
        ("A dead item lives again.", "'lives again': write requeue, redrive"),
        ("The line break hands\nout an item.", "'hands out': write deliver"),
        ("It waits for ever.", "(archaism"),
    ],
)
def test_a_bad_sentence_is_refused_with_what_to_write(tmp_path, sentence, said):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{sentence}\n")
    code, printed = read(page)
    assert code == 1
    assert printed.startswith(f"{page}:3: ")
    assert said in printed


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("Extras:\n\n| --- | --- |\n| a | b |\n", "3: a table without a head"),
        ("| one |\n| --- | --- |\n| a | b |\n", "2: a table without a head of as many cells"),
        ("- 1. [The first](a.md)\n", "1: a bullet that begins with a number"),
        ("Like this:\n\n    [rest]\n", "3: an indented block"),
    ],
)
def test_what_would_be_shown_otherwise_than_written_is_refused(tmp_path, page, said):
    file = tmp_path / "page.md"
    file.write_text(page)
    for how in ([], ["--docstrings"]):  # of pages, and of decisions
        code, printed = read(*how, file)
        assert code == 1
        assert printed.startswith(f"{file}:{said}")


def test_tables_with_heads_and_lists_are_as_they_should_be(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "| a | b |\n| --- | :---: |\n| 1 | 2 |\n\n- [1. The first](a.md)\n- 24 hours\n\n    of it\n"
    )
    assert read(page) == (0, "")


def test_code_is_not_prose(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("A good line with `shall` in it.\n\n```sh\n# hands out\n```\n")
    assert read(page) == (0, "")


def test_strings_and_docstrings_of_modules_are_read(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        '"""A good module docstring."""\n\nHELP = "Nobody shall do this."\nKEY = "anew"\n'
    )
    code, printed = read(module)
    assert (code, printed) == (1, f"{module}:3: 'shall': write will, must\n")


def test_modules_with_texts_for_users_are_read_as_well():
    places = tomllib.loads((ROOT / "tools" / "prose.toml").read_text())["sources"]["places"]
    assert "component/pubqueue/cli" in places
    assert [place for place in places if not (ROOT / place).exists()] == []
    found = runpy.run_path(str(ROOT / "tools" / "prose"))["pages"]()
    assert ROOT / "component/pubqueue/cli/operations.py" in found


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Return who told\n    somebody.", "'told': write notify, report, return, distinguish"),
        ("Whoever asks waits.", "'Whoever': write anyone who, or the noun"),
        ("An item\n    of nobody.", "'nobody': write no and the noun, or what is not done"),
    ],
)
def test_a_docstring_has_the_verbs_of_the_field(tmp_path, sentence, said):
    module = tmp_path / "module.py"
    module.write_text(
        f'"""A good docstring, with `told` in it."""\n\n\ndef ask() -> str:\n    """{sentence}"""\n    return "told"\n'
    )
    code, printed = read("--docstrings", module)
    line = 5 + sentence.split(said.split("'")[1])[0].count("\n")
    assert code == 1
    assert f"{module}:{line}: {said}\n" in printed
    assert f"{module}:1:" not in printed
    assert f"{module}:7:" not in printed


def test_an_attribute_has_a_docstring_too(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('LIMIT = 3\n"""So many are handed out."""\n')
    assert read("--docstrings", module) == (1, f"{module}:2: 'handed out': write deliver\n")


def test_a_file_without_faults_is_read_again_only_when_it_has_changed(tmp_path):
    prose = runpy.run_path(str(ROOT / "tools" / "prose"))
    good, bad, cache = tmp_path / "good.md", tmp_path / "bad.md", tmp_path / "cache"

    def pieces():
        """Return the names of the files that are read, and drop the bad one."""
        clean = prose["Clean"](cache)
        found = [
            file.name for file in (good, bad) if list(clean.unless("texts", file, prose["texts"]))
        ]
        clean.drop(bad)
        clean.keep()
        return found

    good.write_text("A good line.")
    bad.write_text("Nobody shall do this.")
    assert pieces() == ["good.md", "bad.md"]
    assert pieces() == ["bad.md"]
    good.write_text("A better line.")
    assert pieces() == ["good.md", "bad.md"]
    assert list(prose["Clean"](cache).unless("docstrings", good, prose["texts"]))
