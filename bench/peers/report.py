"""The table of docs/explanation/other-services.md: the results, and the written table."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "other-services.md"
BEGIN: Final = "<!-- what services have: written by `make peers` -->\n\n"
END: Final = "\n<!-- end of what services have -->\n"


def table(found: Mapping[str, Mapping[str, bool]]) -> str:
    """Write the results, a row for each probe, with the versions of the services."""
    heads = [_headed(name) for name in found]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' --- |' * len(heads)}"]
    for question in next(iter(found.values())):
        cells = ["yes" if answers[question] else "-" for answers in found.values()]
        lines.append(f"| {question} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """Return the table in the page."""
    return page.partition(BEGIN)[2].partition(END)[0]


def heads(text: str) -> str:
    """Return the line of a table that names the services and their versions."""
    return text.partition("\n")[0]


def own_column(text: str) -> list[tuple[str, str]]:
    """Return each probe of a table with the result of our service."""
    rows = [line.split(" | ") for line in text.splitlines()[2:]]
    return [(row[0], row[-1]) for row in rows]


def rewritten(page: str, found: str) -> str:
    """Return the page with its table replaced by this one."""
    head, begin, rest = page.partition(BEGIN)
    assert begin, "the page has no place for the table"
    return head + BEGIN + found + END + rest.partition(END)[2]


def _headed(name: str) -> str:
    """Return the name of a service with its version; ours has none."""
    return name if name == "pubqueue" else f"{name} {_version(name.lower())} `mod_pubsub`"


def _version(package: str) -> str:
    """Return the upstream version of a Debian package."""
    command = ["dpkg-query", "--show", "--showformat", "${Version}", package]
    reported = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.match(r"[\d.]+", reported)[0]
