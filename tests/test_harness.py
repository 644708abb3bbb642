"""`tests/harness/README.md` has a row for each helper under its folder, and names none that is not there."""

import re
from pathlib import Path

HARNESS = Path(__file__).parent / "harness"
MAX_FILES = 15


def folders():
    """Return the harness's folders of modules, by the names that the headings have."""
    found = {path.parent for path in HARNESS.rglob("*.py")}
    return {folder.relative_to(HARNESS.parent).as_posix(): folder for folder in found}


def sections():
    """Return the files that have a row, by the folder in the heading above them."""
    parts = (HARNESS / "README.md").read_text().split("\n## `")[1:]
    rows = {
        part.partition("`")[0]: re.findall(r"^\| (`.*`) \|", part, re.MULTILINE) for part in parts
    }
    return {name: re.findall(r"`(\w+\.py)`", " ".join(found)) for name, found in rows.items()}


def test_each_helper_has_a_row_and_each_row_its_helper():
    helpers = {
        name: sorted(path.name for path in folder.glob("*.py") if not path.name.startswith("test_"))
        for name, folder in folders().items()
    }
    assert {name: sorted(files) for name, files in sections().items()} == helpers


def test_a_folder_has_few_files():
    sizes = {name: len(list(folder.glob("*.py"))) for name, folder in folders().items()}
    assert {name: size for name, size in sizes.items() if size > MAX_FILES} == {}
