"""A folder holds so few files that a newcomer takes them in at a glance, and says what is in it."""

import ast
from pathlib import Path

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


def test_each_room_is_small_and_its_docstring_explains_it():
    every = list(rooms())
    assert len(every) > 50
    assert [room for room in every if len(list(room.glob("*.py"))) > MAX_FILES + 1] == []
    heads = {room: ast.parse((room / "__init__.py").read_text()) for room in every}
    assert [room for room, head in heads.items() if not ast.get_docstring(head)] == []
