"""The folder of a run of tests: it goes with the run, and what others have left goes too."""

import os
import tempfile
import time

from harness import run_folder
from harness.run_folder import FRESH, PREFIX, RunFolder


def test_temporary_files_are_in_it_until_it_is_closed(tmp_path):
    before = run_folder.shared(), tempfile.gettempdir()
    folder = RunFolder(tmp_path)
    assert run_folder.shared() == folder.path
    assert folder.path.parent == tmp_path
    with tempfile.TemporaryDirectory() as one:
        assert one.startswith(str(folder.path))
    folder.close(keep=False)
    assert (run_folder.shared(), tempfile.gettempdir()) == before
    assert not folder.path.exists()


def test_what_a_run_has_left_goes_with_the_next_and_what_is_in_use_stays(tmp_path):
    usual = tempfile.gettempdir()
    left = RunFolder(tmp_path)
    left.close(keep=True)
    used, other = RunFolder(tmp_path), tmp_path / "other"
    other.mkdir()
    before = time.time() - FRESH - 1
    for path in (left.path, other, used.path):
        os.utime(path, (before, before))
    third = RunFolder(tmp_path)
    assert set(tmp_path.iterdir()) == {other, used.path, third.path}
    for folder in (third, used):
        folder.close(keep=False)
    assert tempfile.gettempdir() == usual


def test_one_that_has_just_begun_stays_though_it_is_not_locked_yet(tmp_path):
    begun = tmp_path / f"{PREFIX}new"
    begun.mkdir()
    RunFolder(tmp_path).close(keep=False)
    assert begun.exists()
