"""Each folder says what is in it."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = [
    ROOT / "component" / "pubqueue",
    ROOT / "xeps" / "pubqueue_xeps",
    ROOT / "spark" / "pubqueue_spark",
]


def rooms():
    for package in PACKAGES:
        for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
            if list(folder.glob("*.py")):
                yield folder


def test_the_docstring_of_each_room_explains_it():
    every = list(rooms())
    assert len(every) > 20
    heads = {room: ast.parse((room / "__init__.py").read_text()) for room in every}
    assert [room for room, head in heads.items() if not ast.get_docstring(head)] == []
