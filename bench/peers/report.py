"""The table of docs/explanation/other-services.md: what is found, and what is written there."""

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
    """Write what was found, a row for each question, with the versions that were asked."""
    heads = [_headed(name) for name in found]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' --- |' * len(heads)}"]
    for question in next(iter(found.values())):
        cells = ["yes" if answers[question] else "-" for answers in found.values()]
        lines.append(f"| {question} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """Return the table that the page has."""
    return page.partition(BEGIN)[2].partition(END)[0]


def heads(text: str) -> str:
    """Return the line of a table that names the services and their versions."""
    return text.partition("\n")[0]


def own_column(text: str) -> list[tuple[str, str]]:
    """Return each question of a table with what this service has."""
    rows = [line.split(" | ") for line in text.splitlines()[2:]]
    return [(row[0], row[-1]) for row in rows]


def rewritten(page: str, found: str) -> str:
    """Return the page with this table in place of its own."""
    head, begin, rest = page.partition(BEGIN)
    assert begin, "the page has no place for the table"
    return head + BEGIN + found + END + rest.partition(END)[2]


def _headed(name: str) -> str:
    """Name a service with its version; ours is what this is the documentation of."""
    return name if name == "pubqueue" else f"{name} {_version(name.lower())} `mod_pubsub`"


def _version(package: str) -> str:
    """Return the version of a package of Debian's, as its authors count."""
    command = ["dpkg-query", "--show", "--showformat", "${Version}", package]
    reported = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.match(r"[\d.]+", reported)[0]
