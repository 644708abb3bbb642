"""`tests/harness/README.md` has each folder of helpers, and each helper says what it has."""

import ast
import re
from pathlib import Path

HARNESS = Path(__file__).parent / "harness"


def folders():
    """Return the helpers in each folder of modules."""
    found = {}
    for path in sorted(HARNESS.rglob("*.py")):
        name = path.parent.relative_to(HARNESS.parent).as_posix()
        found.setdefault(name, []).append(path)
    return found


def test_each_folder_has_a_row_and_each_row_its_folder():
    rows = re.findall(r"^\| `([^`]+)` \|", (HARNESS / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(folders())


def test_each_helper_says_what_it_has():
    every = [path for files in folders().values() for path in files]
    helpers = [path for path in every if not path.name.startswith("test_")]
    assert [path for path in helpers if not ast.get_docstring(ast.parse(path.read_text()))] == []
