"""Reads the tables of this folder: one row for many cells, one cell for many cases.

The columns left of `|` say what the principal is and what the node is like, those right of it are what is asked. `*` stands
for every value of a column, `a,b` for each of them, and a column that a table leaves out does not matter there: all
its values are tried. Lines that begin with `#` are comments.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = Path(__file__).parent
ACCESS: Final = ("open", "whitelist", "authorize")
DOMAINS: Final = {
    "affiliation": (
        *("owner", "publisher", "publish-only", "member", "none", "outcast"),
        "admin",  # of the service, and nothing to the node
    ),
    "access": ACCESS,
    "publish": ("publishers", "subscribers", "open"),
    "subscription": ("no", "yes", "pending"),
    "kind": ("plain", "queue"),
}
UNDECLARED: Final = DOMAINS | {"subscription": ("no",), "publish": ("publishers",)}
"""What is tried of a column that a table does not have: it could only repeat."""
NOBODY: Final = "-"
"""In the cells of a row that nobody can be in."""


@dataclass(frozen=True, slots=True)
class Case:
    """Somebody, at a node, who asks for one thing; `expected` is the cell, on a line of a file."""

    affiliation: str
    access: str
    publish: str
    subscription: str
    kind: str
    action: str
    expected: str
    line: str

    def __str__(self) -> str:
        who = f"{self.affiliation}, subscribed: {self.subscription}"
        return f"{who}; {self.kind} node, {self.access}, {self.publish}; {self.action}"


def outcomes() -> dict[str, str]:
    """Return the words of cells, each with the answer it stands for."""
    rows = (line.split("|") for line in _lines(FOLDER / "outcomes.txt"))
    return {word.strip(): answer.strip() for word, answer, _ in rows}


def cases(name: str) -> list[Case]:
    """Return every case of the table; a combination without a row, or with two, is an error."""
    head, *rows = _lines(FOLDER / f"{name}.txt")
    columns, actions = _cut(head)
    domains = {it: _domain(it, columns, rows) for it in DOMAINS}
    found: dict[tuple[str, ...], list[Case]] = {}
    for row in rows:
        values, cells = _cut(row)
        assert len(values) == len(columns), f"{name}: not one value a column: {row}"
        assert len(cells) == len(actions), f"{name}: not one cell a column: {row}"
        said = dict(zip(columns, values, strict=True))
        for combination in _combinations(said, domains):
            assert combination not in found, f"{name}: {combination} has two rows: {row}"
            pairs = zip(actions, cells, strict=True)
            found[combination] = [Case(*combination, action, cell, row) for action, cell in pairs]
    missing = set(itertools.product(*domains.values())) - found.keys()
    assert not missing, f"{name}: no row for {sorted(missing)}"
    return list(itertools.chain.from_iterable(found.values()))


def _lines(path: Path) -> list[str]:
    return [it for it in path.read_text().splitlines() if it.strip() and not it.startswith("#")]


def _cut(line: str) -> tuple[list[str], list[str]]:
    left, _, right = line.partition("|")
    return left.split(), right.split()


def _domain(column: str, columns: list[str], rows: list[str]) -> tuple[str, ...]:
    """Return the values of a column that the table is about."""
    if column not in columns:
        return UNDECLARED[column]
    if column != "subscription":
        return DOMAINS[column]
    named = {it for row in rows for it in _cut(row)[0][columns.index(column)].split(",")}
    return tuple(it for it in DOMAINS[column] if it in named)


def _combinations(
    said: dict[str, str], domains: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    choices = []
    for column, domain in domains.items():
        value = said.get(column, "*")
        wanted = domain if value == "*" else tuple(re.split(",", value))
        assert set(wanted) <= set(domain), f"{column} is never {value}"
        choices.append(wanted)
    return itertools.product(*choices)
