"""Which test proves a module: the table `tests/PROOFS.md`, and its comparison with the imports.

A test proves a module that it imports, itself or by a module of the tests that it imports (a contract, a crowd). A module that no
test imports is proved through one that does: a test imports that one, which imports the module. Imports for types count only if
there is no other; a name in a string counts, because modules with deferred imports are named in this way.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
TABLE: Final = ROOT / "tests" / "PROOFS.md"

PACKAGES: Final = {
    "pubqueue": ROOT / "component",
    "pubqueue_xeps": ROOT / "xeps",
    "pubqueue_spark": ROOT / "spark",
    "pyspark_pubqueue": ROOT / "spark",
}
"""The product's packages, and where each is."""

HELPERS: Final = (ROOT / "tests", ROOT)
"""The folders with modules of the tests."""

DOTTED: Final = re.compile(r"([\w.]+)(?::|$)")
"""The name of a module in a string, perhaps with a name of the module."""

ROW: Final = re.compile(r"^\| `([\w.]+)` \| `([\w/.]+)` \| (?:`([\w.]+)`)? ?\|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Proof:
    """A row: the module, its test below `tests`, and the module through which the test comes to it, if it does not import it."""

    module: str
    test: str
    through: str = ""

    def __str__(self) -> str:
        through = f"`{self.through}` " if self.through else ""
        return f"| `{self.module}` | `{self.test}` | {through}|"


def table() -> list[Proof]:
    """Return the rows of the table."""
    return [Proof(*found.groups("")) for found in ROW.finditer(TABLE.read_text())]


@cache
def modules() -> dict[str, Path]:
    """Return the product's modules by name; a package whose file has only a docstring is not one."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package).rglob("*.py")):
            if has_code(path):
                found[dotted(path, folder)] = path
    return found


def has_code(path: Path) -> bool:
    """Whether there is anything but a docstring and `from __future__`."""
    return read(path).has_code


def dotted(path: Path, folder: Path) -> str:
    """Return a file's name as a module."""
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tests() -> list[str]:
    """Return all test files, below `tests`."""
    return sorted(
        str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests").rglob("test_*.py")
    )


@dataclass(frozen=True, slots=True)
class Source:
    """What counts of a file. Its tree is not kept: of all files together it is millions of objects."""

    names: frozenset[str]
    """What it imports: each module, and each name of a module, which may be a module too."""
    names_for_types: frozenset[str]
    """The same with what it imports for types only."""
    texts: frozenset[str]
    """Its strings that may name a module, without a name of the module after it."""
    has_code: bool


@cache
def read(path: Path) -> Source:
    """Read a file."""
    tree = ast.parse(path.read_text())
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    named = (DOTTED.match(text) for text in texts if isinstance(text, str))
    return Source(
        names=_imports(tree),
        names_for_types=_imports(tree, types=True),
        texts=frozenset(found[1] for found in named if found is not None),
        has_code=any(not _is_heading(line) for line in tree.body),
    )


def _is_heading(line: ast.stmt) -> bool:
    if isinstance(line, ast.ImportFrom):
        return line.module == "__future__"
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _imports(tree: ast.Module, *, types: bool = False) -> frozenset[str]:
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{name.name}" for name in node.names}
        if types or not _is_for_types(node):
            waiting += _statements(getattr(node, "body", ()))
        for branch in ("orelse", "finalbody", "handlers", "cases"):
            waiting += _statements(getattr(node, branch, ()))
    return frozenset(found)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _statements(nodes: object) -> list[ast.AST]:
    return nodes if isinstance(nodes, list) else []  # the body of a lambda is an expression


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the product's modules that a file imports, including deferred imports, by their names."""
    return frozenset((read(path).names | named(path)) & modules().keys())


def named(path: Path) -> set[str]:
    """Return what a file of the product may import by a name in a string, in full or below its own package."""
    folder = next((at for at in PACKAGES.values() if at in path.parents), None)
    if folder is None:
        return set()
    own = dotted(path, folder)
    package = own if path.name == "__init__.py" else own.rpartition(".")[0]
    words = read(path).texts
    starts = {word.rstrip(".") for word in words if word.startswith("pubqueue")} | {package}
    return starts | {f"{start}.{word.lstrip('.')}" for start in starts for word in words}


@cache
def used(path: Path) -> frozenset[str]:
    """Return what a file of the product imports; modules that are never imported at run time count also if they are imported for types."""
    types = read(path).names_for_types & modules().keys()
    return imported(path) | (types - run_time_imports())


@cache
def run_time_imports() -> frozenset[str]:
    """Return the product's modules that others of it import when they run."""
    return frozenset().union(*(imported(path) for path in modules().values()))


@cache
def reached(test: str) -> frozenset[str]:
    """Return the product's modules that a test imports, itself or by modules of the tests."""
    found: set[str] = set()
    file = ROOT / "tests" / test
    waiting, seen = [file, *(folder / "conftest.py" for folder in file.parents)], set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        found |= imported(path)
        waiting += helpers(path)
    return frozenset(found)


def helpers(path: Path) -> list[Path]:
    """Return the modules of the tests that a file imports."""
    return [file for name in read(path).names if (file := helper(name)) is not None]


@cache
def helper(name: str) -> Path | None:
    """Return the file of a module of the tests; None if there is no such module."""
    files = (folder / (name.replace(".", "/") + ".py") for folder in HELPERS)
    return next((file for file in files if file.exists()), None)


def holds(proof: Proof, rows: dict[str, Proof]) -> bool:
    """Whether a row is true: the test exists and imports the module, or the one that imports it."""
    known = modules()
    if proof.module not in known or not (ROOT / "tests" / proof.test).exists():
        return False
    if not proof.through:
        return proof.module in reached(proof.test)
    if proof.through not in known or proof.module not in used(known[proof.through]):
        return False
    if proof.through in reached(proof.test):
        return True
    between = rows.get(proof.through)
    rest = {name: row for name, row in rows.items() if name != proof.module}
    return between is not None and between.test == proof.test and holds(between, rest)
