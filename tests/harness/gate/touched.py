"""Which tests a change is about: those of its own files, of what it changes, and of its rooms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from harness import imports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOMS: Final = {
    "xeps": "xeps/pubqueue_xeps",
    "spark": "spark",
    "demo": "demo",
    "examples": "examples",
    "packaging": "packaging",
}
"""The product's folders, by the folders of tests that are not named after a room of the component."""


@dataclass(frozen=True)
class Touched:
    """What the change of these paths is about, below a root."""

    root: Path
    paths: frozenset[str]

    def __call__(self, case: str) -> str:
        """Return why a case is the change's own, "" if it is not."""
        return next(self._reasons(case.partition("::")[0]), "")

    def direct(self) -> list[str]:
        """Return the test files that the change is about."""
        return [test for test in self._tests if self(test)]

    def reached(self) -> list[str]:
        """Return those, and the ones that come to a changed file by others."""
        reaching = {str(path.relative_to(self.root)) for path in imports.reaching(self._files)}
        return [test for test in self._tests if test in reaching or self(test)]

    @cached_property
    def _tests(self) -> list[str]:
        return [str(test.relative_to(self.root)) for test in imports.tests()]

    @cached_property
    def _files(self) -> frozenset[Path]:
        return frozenset(self.root / path for path in self.paths)

    def _reasons(self, test: str) -> Iterator[str]:
        if test in self.paths:
            yield "the change touches its file"
        if not (self.root / test).is_file():
            return
        found = imports.imported(self.root / test) & self._files
        yield from (
            f"it imports {path.relative_to(self.root)}, which the change touches"
            for path in sorted(found)
        )
        room = f"{_room(test)}/"
        yield from (
            f"the change touches {path}, of its room"
            for path in sorted(self.paths)
            if path.startswith(room)
        )


def _room(test: str) -> str:
    """Return the product's folder that the folder of a test is named after; for a test of the tree, none."""
    first, _, rest = test.removeprefix("tests/").rpartition("/")[0].partition("/")
    if not first:
        return "-"
    return "/".join(filter(None, (ROOMS.get(first, f"component/pubqueue/{first}"), rest)))
