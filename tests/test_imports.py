"""`tools/imports` finds imports of names that are not there, and there are none."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def read(*files):
    """Return the exit code of the tool and what it prints."""
    command = [sys.executable, "-I", ROOT / "tools" / "imports", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_every_name_that_is_imported_exists():
    assert read() == (0, "")


# FROM, so that no sample is a program in a string of this file
@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("FROM harness.patience import until, LOOK", ""),
        ("FROM harness.patience import until, gone", "harness.patience has no gone"),
        ("FROM harness.gone import until", "there is no module harness.gone"),
        ("FROM harness import patience\npatience.until", ""),
        ("FROM harness import patience\npatience.gone", "harness.patience has no gone"),
        ("FROM harness import patience\ndef f(patience):\n    patience.gone", ""),
        ("FROM pubqueue import Worker", ""),
        ("FROM pubqueue.core.model import Jid, Gone", "pubqueue.core.model has no Gone"),
        ("import pubqueue.gone", "there is no module pubqueue.gone"),
        ("FROM packaging.requirements import Requirement", ""),
        ("FROM sqlite3 import gone", ""),
        ('"""\nFROM harness import patience, gone\n"""', "harness has no gone"),
    ],
)
def test_it_finds_what_is_wrong(tmp_path, line, wrong):
    sample = tmp_path / "sample.py"
    sample.write_text(line.replace("FROM", "from"))
    code, said = read(sample)
    assert said.rpartition(": ")[2].strip() == wrong
    assert code == bool(wrong)


def test_it_reads_scripts_of_the_shell(tmp_path):
    sample = tmp_path / "sample"
    sample.write_text(
        "#!/bin/sh\npython -c '\nFROM harness import gone\n'\n".replace("FROM", "from")
    )
    assert read(sample) == (1, f"{sample}:3: harness has no gone\n")
