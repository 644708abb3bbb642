"""The numbers of the page about limits, by what they are of."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/explanation/limits.md"


def limit(of: str) -> int:
    """Return the limit that the page names for this."""
    (number,) = re.findall(rf"^\| {re.escape(of)} \| ([\d,]+) \|$", PAGE.read_text(), re.MULTILINE)
    return int(number.replace(",", ""))
