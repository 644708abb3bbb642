"""A namespace is written down once."""

import ast
from pathlib import Path

from pubqueue_xeps.wire import ns

ROOT = Path(__file__).parents[3]
SOURCES = ("component/pubqueue", "xeps/pubqueue_xeps", "spark/pubqueue_spark")
MINE = {name: value for name, value in vars(ns).items() if name.isupper()}
WORDS = [value for value in MINE.values() if isinstance(value, str)]


def texts():
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if file != Path(ns.__file__):
                yield file.relative_to(ROOT), file.read_text("utf-8")


def test_no_other_module_has_one_of_its_own():
    found = [
        f"{file}:{node.lineno} {node.value}"
        for file, text in texts()
        if any(word in text for word in WORDS)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in WORDS
    ]
    assert found == []


def test_each_has_one_name():
    assert len(set(MINE.values())) == len(MINE) > 30
