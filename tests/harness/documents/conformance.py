"""The conformance index in `xeps/README.md`, and the claims of the tests that fill its last columns.

A scenario claims rows with a comment line, `# covers: Q-004 Q-006`; it is played on the stub and on the real
servers, unless `stub_only.py` has a reason why not. A Python test claims with a marker,
`@pytest.mark.covers("Q-056", on=["prosody"])`, on itself, its class or its module (`pytestmark`); without
`on` it is the stub's. The other columns are written by hand.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.scenarios.stub_only import STUB_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[3]
INDEX: Final = ROOT / "xeps" / "README.md"
ROW: Final = re.compile(r"\| ([A-Z]+-\d{3}) \|")
COVERS: Final = re.compile(r"# covers: (.+)")
NONE: Final = "-"
SERVERS: Final = ("stub", "prosody", "ejabberd")
STUB: Final = frozenset({"stub"})
WRITTEN_BY_HAND: Final = 6
"""Columns: those that the tests fill follow them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One behaviour: its section, how much of it holds, its file, and its tests."""

    id: str
    situation: str
    section: str
    level: str
    status: str
    file: str
    tests: str
    servers: str


def rows(text: str) -> list[Row]:
    """Read the rows of the index, in order."""
    lines = [line for line in text.splitlines() if ROW.match(line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split(" | "))) for line in lines]


def claims() -> dict[str, dict[str, frozenset[str]]]:
    """Return which tests claim each row, and on which servers: links to scenarios and to Python tests."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for row, claimant, servers in [*_by_scenarios(), *_by_tests()]:
        on = found.setdefault(row, {})
        on[claimant] = on.get(claimant, frozenset()) | servers
    return found


def filled(text: str) -> str:
    """Return the index with its last columns as the tests claim them now."""
    claimed = claims()
    return "".join(_filled(line, claimed) for line in text.splitlines(keepends=True))


def _filled(line: str, claimed: dict[str, dict[str, frozenset[str]]]) -> str:
    found = ROW.match(line)
    if not found:
        return line
    kept = line.rstrip("\n").rstrip("|").split(" | ")[:WRITTEN_BY_HAND]
    mine = claimed.get(found[1], {})
    tests = ", ".join(
        claimant if on != STUB else f"{claimant} (stub)" for claimant, on in sorted(mine.items())
    )
    servers = [it for it in SERVERS if any(it in on for on in mine.values())]
    return " | ".join([*kept, tests or NONE, ", ".join(servers) or NONE]) + " |\n"


def _by_scenarios() -> Iterator[tuple[str, str, frozenset[str]]]:
    for path in sorted(ROOT.glob("tests/scenarios/*.txt")):
        on = STUB if path.stem in STUB_ONLY else frozenset(SERVERS)
        for line in COVERS.findall(path.read_text()):
            for row in line.split():
                yield row, f"[{path.stem}](../tests/scenarios/{path.name})", on


def _by_tests() -> Iterator[tuple[str, str, frozenset[str]]]:
    for path in sorted([*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("proof/**/test_*.py")]):
        text = path.read_text()
        if "covers(" not in text:
            continue
        where = path.relative_to(ROOT).as_posix()
        for row, on, name in _marked(ast.parse(text), ""):
            yield row, f"[{name or path.stem}](../{where})", on


def _marked(
    node: ast.Module | ast.ClassDef, inside: str
) -> Iterator[tuple[str, frozenset[str], str]]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in child.decorator_list:
                yield from ((*claim, inside + child.name) for claim in _covered(decorator))
            if isinstance(child, ast.ClassDef):
                yield from _marked(child, f"{child.name}.")
        elif isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "pytestmark":
            yield from ((*claim, inside.rstrip(".")) for claim in _covered(child.value))


def _covered(marks: ast.expr) -> Iterator[tuple[str, frozenset[str]]]:
    for node in ast.walk(marks):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.covers":
            said = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
            on = frozenset(said.get("on", STUB))
            assert on <= set(SERVERS), f"no such servers: {on - set(SERVERS)}"
            yield from ((ast.literal_eval(row), on) for row in node.args)
