"""What imports what: the product's modules, the modules of the tests, and the tests that reach them.

An import counts when the code runs: at the top of a file or deferred in a function, and by a name in a string, in full or below the
file's own package. Imports for types count only for modules that are imported for nothing else. A fixture of a `conftest.py`
that imports something itself does so for the tests that ask for it, not for all tests below.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests"
PRODUCT: Final = {
    "pubqueue": ROOT / "component",
    "pubqueue_xeps": ROOT / "xeps",
    "pubqueue_spark": ROOT / "spark",
    "pyspark_pubqueue": ROOT / "spark",
    "pubqueue_demo": ROOT / "demo",
}
"""The product's packages, and where each is."""
HELPERS: Final = {"bench": ROOT, "proof": ROOT}
"""Packages beside the product; whatever has no package is a module of the tests."""
WORD: Final = re.compile(r"""(?<=["'}])([\w.]+)(?=[:"'{])""")
"""The name of a module in a string, or a part of it; perhaps with a name of the module behind a colon."""
CACHE: Final = ROOT / ".imports_cache"
"""What was read before, by the digest of the text and of this reader: to parse all files takes seconds."""

MAX_CACHE_BYTES: Final = 16 << 20
"""All files are 2 MB; more is of files that have changed since."""


@dataclass(frozen=True, slots=True)
class Source:
    """What counts of a file. Its tree is not kept: of all files together it is millions of objects."""

    names: list[str] = field(default_factory=list)
    """What it imports: each module, and each name of a module, which may be a module too."""
    for_types: list[str] = field(default_factory=list)
    """What it imports for types only."""
    in_fixtures: dict[str, list[str]] = field(default_factory=dict)
    """What each function of a `conftest.py` imports, and the names of its parameters."""
    words: list[str] = field(default_factory=list)
    """Its strings that may name a module, or a part of the name."""
    has_code: bool = False
    """Whether there is anything but a docstring and `from __future__`."""


@cache
def place(module: str) -> Path | None:
    """Return the file or the folder of a module of ours; None for others and for those that do not exist."""
    top = module.partition(".")[0]
    path = (PRODUCT | HELPERS).get(top, TESTS) / module.replace(".", "/")
    if path.with_suffix(".py").is_file():
        return path.with_suffix(".py")
    return path if path.is_dir() and any(path.glob("**/*.py")) else None


def file(module: str) -> Path | None:
    """Return the file with a module's code; None if the module is not ours or has none."""
    path = place(module)
    path = path / "__init__.py" if path is not None and path.is_dir() else path
    return path if path is not None and path.is_file() and read(path).has_code else None


@cache
def modules() -> dict[str, Path]:
    """Return the product's modules that have code, by name."""
    paths = (path for name, folder in PRODUCT.items() for path in (folder / name).rglob("*.py"))
    return {dotted(path): path for path in sorted(paths) if read(path).has_code}


def tests() -> list[Path]:
    """Return all test files."""
    return sorted(TESTS.rglob("test_*.py"))


def dotted(path: Path) -> str:
    """Return a file's name as a module."""
    folder = next((at for at in (*PRODUCT.values(), TESTS) if path.is_relative_to(at)), ROOT)
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(path: Path) -> frozenset[Path]:
    """Return the files of ours that a file imports itself when it runs; those of its fixtures are not among them."""
    written = (found for name in read(path).names if (found := file(name)) is not None)
    known = modules()
    return frozenset((*written, *(known[name] for name in named(path) & known.keys())))


def named(path: Path) -> set[str]:
    """Return what a file may import by a name in a string; in the product also a name below a package that it names, or below its own."""
    words = read(path).words
    full = {word.rstrip(".") for word in words if word.startswith("pubqueue")}
    if _is_product(path):
        own = dotted(path)
        starts = full | {own if path.name == "__init__.py" else own.rpartition(".")[0]}
        full |= {f"{start}.{word.lstrip('.')}" for start in starts for word in words}
    else:
        full = {name.rsplit(".", n)[0] for name in full for n in range(3)}
    return {name for name in full if "." in name}  # a package alone is a word like others


@cache
def used(path: Path) -> frozenset[Path]:
    """Return what a file imports, with what it imports for types if nothing imports that when it runs."""
    types = {found for name in read(path).for_types if (found := file(name)) is not None}
    return imported(path) | (types - _run_time_imports())


@cache
def _run_time_imports() -> frozenset[Path]:
    return frozenset().union(*(imported(path) for path in modules().values()))


@cache
def by_tests(test: Path) -> frozenset[Path]:
    """Return what a test imports, itself, by the modules of tests that it imports, and by each `conftest.py` above it with its fixtures."""
    above = [path for folder in test.parents if (path := folder / "conftest.py").is_file()]
    first = {*imported(test), *(found for path in above for found in imported(path))}
    mine = _closed(first, _of_helpers)
    seen = [test, *(path for path in mine if not _is_product(path))]
    return mine | _closed(_fixtures(above, seen), _of_helpers)


def _of_helpers(path: Path) -> frozenset[Path]:
    return frozenset() if _is_product(path) else imported(path)


def _is_product(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in PRODUCT.values())


def _fixtures(above: list[Path], seen: list[Path]) -> frozenset[Path]:
    """Return what the fixtures import that these files name, themselves or by another fixture."""
    there = {name: said for path in above for name, said in read(path).in_fixtures.items()}
    asked = {name for path in seen for name in there.keys() & _words(path)}
    while new := {name for one in asked for name in there[one]} & there.keys() - asked:
        asked |= new
    found = (file(name) for one in asked for name in there[one])
    return frozenset(path for path in found if path is not None)


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z_]\w+", path.read_text()))


def reached(*several: Path) -> frozenset[Path]:
    """Return all that tests come to by imports, however many lie between."""
    return _closed(frozenset().union(*map(by_tests, several)), used)


def importing(changed: Iterable[Path]) -> list[Path]:
    """Return the test files that import one of these files themselves, or are among them."""
    changed = frozenset(changed)
    return [test for test in tests() if test in changed or imported(test) & changed]


def reaching(changed: Iterable[Path]) -> list[Path]:
    """Return the test files that come to one of these files, however many lie between, or are among them."""
    changed = frozenset(changed)
    coming = _closed(changed, lambda path: _users().get(path, ()))
    return [test for test in tests() if test in changed or by_tests(test) & coming]


@cache
def _users() -> dict[Path, set[Path]]:
    """Return the files of the product that use each of its files."""
    found: dict[Path, set[Path]] = {}
    for path in modules().values():
        for one in used(path):
            found.setdefault(one, set()).add(path)
    return found


def _closed(first: Iterable[Path], following: Callable[[Path], Iterable[Path]]) -> frozenset[Path]:
    found, waiting = set(first), list(first)
    while waiting:
        new = set(following(waiting.pop())) - found
        found |= new
        waiting += new
    return frozenset(found)


@cache
def read(path: Path) -> Source:
    """Read a file, or remember what was read of the same text."""
    text = path.read_bytes()
    key = blake2b(text + bytes(path.name == "conftest.py") + _reader(), digest_size=12).hexdigest()
    if (known := remembered().get(key)) is not None:
        return Source(**known)
    found = parsed(text.decode(), fixtures=path.name == "conftest.py")
    line = json.dumps([key, asdict(found)]) + "\n"
    with CACHE.open("ab", buffering=0) as lines:  # at once, for others may write too
        lines.write(line.encode())
    return found


@cache
def _reader() -> bytes:
    return blake2b(Path(__file__).read_bytes()).digest()


@cache
def remembered() -> dict[str, dict]:
    """Return what was read before, by its digest."""
    if CACHE.exists() and CACHE.stat().st_size > MAX_CACHE_BYTES:
        CACHE.unlink()
    lines = CACHE.read_text().splitlines() if CACHE.exists() else []
    return dict(json.loads(line) for line in lines)


def parsed(text: str, *, fixtures: bool = False) -> Source:
    """Read the text of a file; with `fixtures`, what its functions import counts apart."""
    body = ast.parse(text).body
    functions = [line for line in body if isinstance(line, _FUNCTION)] if fixtures else []
    rest = [line for line in body if line not in functions]
    names = set(_imports(rest))
    return Source(
        names=sorted(names),
        for_types=sorted(set(_imports(rest, types=True)) - names),
        in_fixtures={
            one.name: [*sorted(set(_imports(one.body))), *(each.arg for each in one.args.args)]
            for one in functions
        },
        words=sorted(set(WORD.findall(text))),
        has_code=any(not _is_heading(line) for line in body),
    )


_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is_heading(line: ast.stmt) -> bool:
    if isinstance(line, ast.ImportFrom):
        return line.module == "__future__"
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _imports(body: list[ast.stmt], *, types: bool = False) -> Iterator[str]:
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        if types or not _is_for_types(node):
            waiting += _statements(getattr(node, "body", ()))
        for branch in ("orelse", "finalbody", "handlers", "cases"):
            waiting += _statements(getattr(node, branch, ()))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _statements(nodes: object) -> list[ast.AST]:
    return nodes if isinstance(nodes, list) else []  # the body of a lambda is an expression
