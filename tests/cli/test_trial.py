"""`pubqueue curb`: its options, and what it says when one is wrong."""

import pytest
from click.testing import CliRunner

from pubqueue.cli import main


def run(*words):
    return CliRunner().invoke(main, ["curb", *words])


@pytest.mark.parametrize("cap", ["0", "-1", "", "10MB", "1.5MiB", "MiB", "ten", "10 MiB", "0GiB"])
def test_a_cap_that_is_no_size_is_a_usage_error_in_one_sentence(cap, tmp_path):  # C01
    done = run("-cap", cap, "-journal", str(tmp_path / "j"))
    assert done.exit_code == 2
    assert done.stderr == (
        f"pubqueue: -cap must be a number of bytes above 0, or one with KiB, MiB or GiB, not {cap!r}\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address", ["", "host", ":x", "a:70000", "127.0.0.1:1,127.0.0.1:2", "::1:5"]
)
def test_an_address_that_is_none_is_a_usage_error(address, tmp_path):  # C01
    done = run("-cap", "1KiB", "-addr", address, "-journal", str(tmp_path / "j"))
    assert (done.exit_code, done.stderr[:21], done.stderr.count("\n")) == (
        2,
        "pubqueue: -addr must ",
        1,
    )
    assert list(tmp_path.iterdir()) == []


def test_without_a_cap_it_is_a_usage_error():
    done = run()
    assert (done.exit_code, "Missing option '-cap'" in done.stderr) == (2, True)


def test_a_file_that_is_no_journal_is_reported_and_left_alone(tmp_path):
    (tmp_path / "j").write_text("hello\n")
    done = run("-cap", "1KiB", "-addr", "127.0.0.1:0", "-journal", str(tmp_path / "j"))
    assert done.exit_code == 1
    assert done.stderr == f"pubqueue: {tmp_path / 'j'} is not a journal: see its line 1\n"
    assert (tmp_path / "j").read_text() == "hello\n"


def test_a_missing_folder_is_reported(tmp_path):
    done = run("-cap", "1KiB", "-journal", str(tmp_path / "none" / "j"))
    assert (done.exit_code, "cannot be used (No such file or directory)" in done.stderr) == (
        1,
        True,
    )
