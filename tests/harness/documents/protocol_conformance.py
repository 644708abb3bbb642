"""The index of a protocol in `docs/reference`, and the claims of the tests about its rows.

A test claims rows with a comment after its `def` line, `# S14, N12`. The last column is written from that, the others by hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.documents.conformance import NONE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

STATUS: Final = re.compile(r"held|part: .+|not yet|elsewhere: .+")
DEFINED: Final = re.compile(
    r"^ *(?:async def|def|class) ((?:test_|Test)\w+)\([^)]*\):(.*)$", re.MULTILINE
)
COLUMNS: Final = 4
"""Columns that are written by hand: the row, its behaviour, its status, its files."""


@dataclass(frozen=True)
class ProtocolIndex:
    """One page. `rows_named` matches the name of a row; `in_names` its form in the name of a test."""

    name: str
    places: tuple[str, ...]
    rows_named: str
    in_names: str = ""
    most: int = 1000
    """Tests that a row links to; of more, only their number."""

    @property
    def page(self) -> Path:
        """Its path."""
        return ROOT / "docs" / "reference" / self.name

    def rows(self, text: str) -> list[list[str]]:
        """Return the cells of each row."""
        lines = [line for line in text.splitlines() if self._row(line)]
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]

    def claims(self) -> dict[str, list[str]]:
        """Return links to the tests of each row."""
        found: dict[str, list[str]] = {}
        for place in self.places:
            for path in sorted((ROOT / place).rglob("test_*.py")):
                where = path.relative_to(ROOT).as_posix()
                for test, comment in DEFINED.findall(path.read_text()):
                    named = re.findall(self.in_names, test) if self.in_names else []
                    claimed = re.findall(rf"\b{self.rows_named}\b", comment)
                    for row in dict.fromkeys([*(one.upper() for one in named), *claimed]):
                        found.setdefault(row, []).append(f"[{test}](../../{where})")
        return found

    def filled(self, text: str) -> str:
        """Return the index with its last column as the tests claim it now."""
        claimed = self.claims()
        return "".join(self._filled(line, claimed) for line in text.splitlines(keepends=True))

    def _row(self, line: str) -> re.Match[str] | None:
        return re.match(rf"\| ({self.rows_named}) \|", line)

    def _filled(self, line: str, claimed: dict[str, list[str]]) -> str:
        found = self._row(line)
        if not found:
            return line
        kept = line.rstrip("\n").rstrip("|").split(" | ")[:COLUMNS]
        tests = sorted(claimed.get(found[1], []))
        shown = ", ".join(tests[: self.most])
        more = f" and {len(tests) - self.most} more" if len(tests) > self.most else ""
        return " | ".join([*kept, (shown or NONE) + more]).replace("  |", " |") + " |\n"


STOMP: Final = ProtocolIndex(
    "stomp.md",
    ("tests/faces/stomp", "tests/curb", "tests/cli"),
    r"[SCN]\d\d",
    in_names=r"(?<=_)c\d\d(?=_)",
)
GRPC: Final = ProtocolIndex(
    "grpc.md",
    ("tests/faces/grpc", "proof/one_queue", "tests/config", "tests/core"),
    r"G\d+",
    most=6,
)
REST: Final = ProtocolIndex(
    "rest.md",
    ("tests/faces/rest", "proof/one_queue", "tests/monitor", "tests/config"),
    r"[RHW]\d\d",
    most=6,
)
ALL: Final = (STOMP, GRPC, REST)
