"""The conformance index in `xeps/README.md`, and the claims of the tests that fill its last column.

A scenario claims rows with a comment line, `# covers: Q-004 Q-006`; a Python test with a marker,
`@pytest.mark.covers("Q-056")`, on itself, its class or its module (`pytestmark`). The other columns are
written by hand.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
INDEX: Final = ROOT / "xeps" / "README.md"
ROW: Final = re.compile(r"\| ([A-Z]-\d{3}) \|")
COVERS: Final = re.compile(r"# covers: (.+)")
NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One behaviour: where it is said, how much of it holds, where it is built, what shows it."""

    id: str
    situation: str
    section: str
    level: str
    status: str
    file: str
    tests: str


def rows(text: str) -> list[Row]:
    """Read the rows of the index, in order."""
    lines = [line for line in text.splitlines() if ROW.match(line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split(" | "))) for line in lines]


def claims() -> dict[str, list[str]]:
    """Return who claims each row: links to scenarios, and names of Python tests."""
    found: dict[str, set[str]] = {}
    for row, claimant in [*_by_scenarios(), *_by_tests()]:
        found.setdefault(row, set()).add(claimant)
    return {row: sorted(claimants) for row, claimants in found.items()}


def filled(text: str) -> str:
    """Return the index with its last column as the tests claim it now."""
    claimed = claims()
    return "".join(_filled(line, claimed) for line in text.splitlines(keepends=True))


def _filled(line: str, claimed: dict[str, list[str]]) -> str:
    found = ROW.match(line)
    if not found:
        return line
    kept = line.rstrip("\n").rstrip("|").split(" | ")[:-1]
    tests = ", ".join(claimed.get(found[1], [])) or NONE
    return " | ".join([*kept, tests]) + " |\n"


def _by_scenarios() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.glob("tests/scenarios/*.txt")):
        for line in COVERS.findall(path.read_text()):
            for row in line.split():
                yield row, f"[{path.stem}](../tests/scenarios/{path.name})"


def _by_tests() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        text = path.read_text()
        if "covers(" not in text:
            continue
        where = path.relative_to(ROOT).as_posix()
        for row, name in _marked(ast.parse(text), ""):
            yield row, f"[{name or path.stem}](../{where})"


def _marked(node: ast.Module | ast.ClassDef, inside: str) -> Iterator[tuple[str, str]]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in child.decorator_list:
                yield from ((row, inside + child.name) for row in _covered(decorator))
            if isinstance(child, ast.ClassDef):
                yield from _marked(child, f"{child.name}.")
        elif isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "pytestmark":
            yield from ((row, inside.rstrip(".")) for row in _covered(child.value))


def _covered(marks: ast.expr) -> Iterator[str]:
    for node in ast.walk(marks):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.covers":
            yield from (ast.literal_eval(row) for row in node.args)
