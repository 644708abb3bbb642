"""A folder holds so few files that a newcomer takes them in at a glance, and says what is in it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = [
    ROOT / "component" / "pubqueue",
    ROOT / "xeps" / "pubqueue_xeps",
    ROOT / "spark" / "pubqueue_spark",
]
MAX_FILES = 15


def rooms():
    for package in PACKAGES:
        for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
            if list(folder.glob("*.py")):
                yield folder


@pytest.mark.parametrize("room", sorted(rooms()), ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_is_small_and_its_docstring_explains_it(room):
    files = [path.name for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MAX_FILES
    about = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert about
