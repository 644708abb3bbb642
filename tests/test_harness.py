"""`tests/harness/README.md` has a row for each helper, and names none that is not there."""

import re
from pathlib import Path

HARNESS = Path(__file__).parent / "harness"


def test_each_helper_has_a_row_and_each_row_its_helper():
    rows = re.findall(r"^\| (`.*`) \|", (HARNESS / "README.md").read_text(), re.MULTILINE)
    named = re.findall(r"`(\w+\.py)`", " ".join(rows))
    helpers = {path.name for path in HARNESS.glob("*.py")}
    helpers = {name for name in helpers if not name.startswith(("test_", "__"))}
    assert sorted(named) == sorted(helpers)
