"""The indexes of conformance: a row for each behaviour that can be tested, and the claims of the tests that fill its last columns.

The index of the XEPs is `xeps/README.md`. A scenario claims rows with a comment line, `# covers: Q-004 Q-006`; it is played on the
stub and on the real servers, unless `stub_only.py` has a reason why not. A Python test claims with a marker,
`@pytest.mark.covers("Q-056", on=["prosody"])`, on itself, its class or its module (`pytestmark`); without `on` it is the stub's.

STOMP, gRPC and REST have theirs beside it. A test claims rows with a comment after its `def` line, `# S14, N12`.

The other columns are written by hand.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.scenarios.stub_only import STUB_ONLY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[3]
PRODUCT: Final = ROOT / "component" / "pubqueue"
COVERS: Final = re.compile(r"# covers: (.+)")
DEFINED: Final = re.compile(
    r"^ *(?:async def|def|class) ((?:test_|Test)\w+)\([^)]*\):(.*)$", re.MULTILINE
)
NONE: Final = "-"
SERVERS: Final = ("stub", "prosody", "ejabberd")
STUB: Final = frozenset({"stub"})

Claims = dict[str, dict[str, frozenset[str]]]
"""The tests of each row, as links, and the servers that each runs on; no servers where there is only one kind."""


@dataclass(frozen=True)
class Index:
    """One page. `columns` of it are written by hand; the last two of these are the status and the files, below `files`."""

    page: Path
    columns: int
    names: tuple[str, ...]
    """Its rows, in order."""
    row: str
    """Matches the name of a row."""
    claims: Callable[[], Claims]
    files: Path = PRODUCT
    statuses: str = r"held|part: .+|not yet|elsewhere: .+"
    most: int = 1000
    """Tests that a row links to; of more, only their number."""
    servers: bool = False
    """Whether there is a column of servers after that of the tests."""

    def rows(self) -> list[list[str]]:
        """Return the cells of each row."""
        lines = [line for line in self.page.read_text().splitlines() if self._named(line)]
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]

    def filled(self) -> str:
        """Return the page with its last columns as the tests claim them now."""
        claimed = self.claims()
        lines = self.page.read_text().splitlines(keepends=True)
        return "".join(self._filled(line, claimed) for line in lines)

    def _named(self, line: str) -> re.Match[str] | None:
        return re.match(rf"\| ({self.row}) \|", line)

    def _filled(self, line: str, claimed: Claims) -> str:
        found = self._named(line)
        if not found:
            return line
        kept = line.rstrip("\n").rstrip("|").split(" | ")[: self.columns]
        mine = claimed.get(found[1], {})
        tests = [f"{one} (stub)" if on == STUB else one for one, on in sorted(mine.items())]
        shown = ", ".join(tests[: self.most])
        more = f" and {len(tests) - self.most} more" if len(tests) > self.most else ""
        kept.append((shown or NONE) + more)
        if self.servers:
            on = [it for it in SERVERS if any(it in on for on in mine.values())]
            kept.append(", ".join(on) or NONE)
        return " | ".join(kept).replace("  |", " |") + " |\n"


def of_xeps() -> Claims:
    """Return the claims of scenarios, and of tests with a marker."""
    found: Claims = {}
    for row, claimant, servers in [*_by_scenarios(), *_by_tests()]:
        on = found.setdefault(row, {})
        on[claimant] = on.get(claimant, frozenset()) | servers
    return found


def by_comments(row: str, *places: str, in_names: str = "") -> Callable[[], Claims]:
    """Return what finds the claims in the comments of tests in some folders; `in_names` matches a row in the name of a test."""

    def claims() -> Claims:
        found: Claims = {}
        for place in places:
            for path in sorted((ROOT / place).rglob("test_*.py")):
                where = path.relative_to(ROOT).as_posix()
                for test, comment in DEFINED.findall(path.read_text()):
                    named = re.findall(in_names, test) if in_names else []
                    for one in [*map(str.upper, named), *re.findall(rf"\b{row}\b", comment)]:
                        found.setdefault(one, {})[f"[{test}](../{where})"] = frozenset()
        return found

    return claims


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


def _numbered(form: str, **counts: int) -> tuple[str, ...]:
    return tuple(
        form.format(name, n) for name, count in counts.items() for n in range(1, count + 1)
    )


# fmt: off
XEPS: Final = Index(
    ROOT / "xeps" / "README.md",
    6,
    _numbered(
        "{}-{:03}", K=10, D=11, E=5, S=22, U=6, O=17, I=15, T=9, P=21, R=7, C=9, G=11, X=6, M=7, B=5, L=10, N=13, Q=59,
        W=7, QS=45,
    ),
    r"[A-Z]+-\d{3}",
    cache(of_xeps),
    statuses=r"held|part: .+|not yet|does not apply",
    servers=True,
)
# fmt: on
_PAGES: Final = ROOT / "xeps"
STOMP: Final = Index(
    _PAGES / "stomp.md",
    4,
    _numbered("{}{:02}", S=25, C=36, N=30),
    r"[SCN]\d\d",
    by_comments(
        r"[SCN]\d\d",
        *("tests/faces/stomp", "tests/curb", "tests/cli"),
        in_names=r"(?<=_)c\d\d(?=_)",
    ),
)
GRPC: Final = Index(
    _PAGES / "grpc.md",
    4,
    _numbered("{}{}", G=53),
    r"G\d+",
    by_comments(r"G\d+", "tests/faces/grpc", "proof/one_queue", "tests/rules"),
    most=6,
)
REST: Final = Index(
    _PAGES / "rest.md",
    4,
    _numbered("{}{:02}", R=36, H=34, W=27),
    r"[RHW]\d\d",
    by_comments(
        r"[RHW]\d\d", "tests/faces/rest", "tests/faces/http", "proof/one_queue", "tests/monitor"
    ),
    files=PRODUCT / "faces" / "rest",
    most=6,
)
ALL: Final = (XEPS, STOMP, GRPC, REST)
