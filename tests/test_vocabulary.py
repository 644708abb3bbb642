"""One word for one thing: words that were given up do not come back as names.

The glossary on top of component/README.md has the words to use. The table below has those that were replaced, and how a
word is looked for depends on how it is written there:

- `told`: a part of any name, which is split at underscores and capitals (`when_told`, `is_told`, `ToldOwners`);
- `MOST`: a part of a constant (`MOST_ITEMS`), for as a word of a sentence it is good;
- `Session`: a whole name, which has said too many things to say one.

Names are what Python code binds (modules, classes, functions, parameters, variables, attributes), the statements in SQL
files, and log events. Names of tests are sentences, and not among them; neither are columns of a database, names on the
wire, and what users configure, which have promises of their own.
"""

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("component", "xeps", "spark", "demo", "bench", "examples", "tests", "proof", "tools")
EVENT = re.compile(r"[a-z_]+\.[a-z_.]+")
LOGGERS = {"debug", "info", "warning", "error", "exception", "critical"}


class Denied(NamedTuple):
    """What to say instead; where the word may stand (a file, or a folder with a slash), and why."""

    use: str
    allowed: Mapping[str, str] = MappingProxyType({})


IN_TESTS = {"tests/": "what a program, a stream or a log has written, and who reads it"}
IN_BENCH = IN_TESTS | {"proof/": "likewise", "bench/": "likewise"}
IN_TOOLS = IN_BENCH | {"tools/": "likewise"}

# fmt: off
DENIED = {
    # who asks, and what is done
    "asker":      Denied("principal"),
    "askers":     Denied("principals"),
    "deed":       Denied("action"),
    "deeds":      Denied("actions"),
    "desk":       Denied("command_handler"),
    # what is notified, sent, logged, and what of it was not
    "told":       Denied("notified, sent, logged or reported"),
    "untold":     Denied("unnotified, or undelivered"),
    "said":       Denied("text, reason, or what it is", IN_TOOLS),
    "hear":       Denied("take, note or wait for", IN_BENCH),
    "heard":      Denied("active, noted, or what it is", IN_BENCH),
    "speak":      Denied("send", IN_TESTS),
    "speaker":    Denied("sender"),
    "unsaid":     Denied("undelivered"),
    "unrepeated": Denied("presence_retry"),
    "gathered":   Denied("batch_changes", {
        "component/pubqueue/faces/xmpp/stream/outgoing.py":  "bytes gather during a turn of the loop",
        "tests/spark/test_bundles.py":                       "rows gather to a request",
    }),
    "unwritten":  Denied("pending_writes", {
        "component/pubqueue/app/": "says whether there are any, or which: no thing",
    }),
    "resending":  Denied("redelivery"),
    "happening":  Denied("operator_event"),
    "happenings": Denied("operator_events"),
    "lanes":      Denied("send_queues"),
    # transactions
    "contest":    Denied("conflict"),
    "contests":   Denied("conflicts"),
    # how much, how long
    "octets":     Denied("bytes, or byte_count"),
    "KNOCK":      Denied("RETRY_INTERVAL"),
    "GLANCE":     Denied("POLL_INTERVAL"),
    "PATIENCE":   Denied("TIMEOUT"),
    "MOST":       Denied("MAX_ and what is counted: MAX_BATCH_REQUESTS"),
    "LARGEST":    Denied("MAX_ and the unit: MAX_ANSWER_BYTES"),
    "LONGEST":    Denied("MAX_, and _LENGTH for text: MAX_ID_LENGTH"),
    # one name, several things
    "Session":    Denied("SqlSession, CommandSession, Login, QueueSession, PublishSession"),
    "Sessions":   Denied("CommandSessions, Logins"),
    "Told":       Denied("DeliveredMark, StatusReporter"),
    "Echo":       Denied("FlowProbe"),
    "Gathered":   Denied("BatchChanges"),
    "Unwritten":  Denied("PendingWrites"),
    "Line":       Denied("DatabaseConnection, PlotLine"),
    "Watch":      Denied("CopyProgress, LeaseWatch, or Observer"),
    "Table":      Denied("CommandTable, or DatabaseTable"),
    "Kind":       Denied("ParameterKind, ItemEvent, or PlotKind"),
}
# fmt: on


class Name(NamedTuple):
    """A name, and where it is bound."""

    file: str
    line: int
    text: str


@cache
def parts_of(name):
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def is_denied(name, word):
    if word.islower():
        return word in parts_of(name)
    if word.isupper():
        return name.isupper() and word.lower() in parts_of(name)
    return name == word


NAMING = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.arg,
    ast.alias,
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Assign,
)
"""Of millions of nodes, those that may bind or log a name."""


def bound(node):
    """Return the name that the node binds, or ""; test functions have sentences for names."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return "" if name.startswith("test_") else name
        case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.alias(asname=str(name)):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
    return ""


def logged(node):
    """Return the log event that the node writes or names, or ""."""
    match node:
        case ast.Call(func=ast.Attribute(attr=how), args=[ast.Constant(value=str(event)), *_]):
            return event if how in LOGGERS and EVENT.fullmatch(event) else ""
        case ast.Call(func=ast.Name("apart"), args=[ast.Constant(value=str(event))]):
            return event
        case ast.Assign(targets=[ast.Name("fault")], value=ast.Constant(value=str(event))):
            return event
    return ""


def python_names(source):
    """Yield what the code binds and logs, with the lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, NAMING) and (name := bound(node) or logged(node)):
            yield node.lineno, name


def sql_names(source):
    """Yield the names of the statements: `-- name: what it is for`."""
    for number, line in enumerate(source.splitlines(), 1):
        if (found := re.match(r"-- ([a-z_]+):", line)) is not None:
            yield number, found[1]


def is_python(path):
    if path.suffix:
        return path.suffix == ".py"
    with path.open("rb") as file:
        head = file.readline()
    return head.startswith(b"#!") and b"python" in head


def names_in(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            file = path.relative_to(root).as_posix()
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            if path.suffix == ".sql":
                found = sql_names(path.read_text())
            elif is_python(path):
                stem = path.stem if path.stem != "__init__" else path.parent.name
                found = python_names(path.read_text())
                if not stem.startswith("test_"):
                    yield Name(file, 1, stem)
            else:
                continue
            yield from (Name(file, line, text) for line, text in found)


@pytest.fixture(scope="module")
def names():
    return list(names_in(ROOT))


def where(names, word, allowed=()):
    denied = {text for text in {name.text for name in names} if is_denied(text, word)}
    return [
        f"{name.file}:{name.line} {name.text}"
        for name in names
        if name.text in denied and not any(name.file.startswith(place) for place in allowed)
    ]


@pytest.mark.parametrize("word", DENIED)
def test_a_word_that_was_replaced_is_no_name(names, word):
    found = where(names, word, DENIED[word].allowed)
    assert not found, f"say {DENIED[word].use}: {found}"


ALLOWED = [(word, *entry) for word, denied in DENIED.items() for entry in denied.allowed.items()]


@pytest.mark.parametrize(("word", "place", "why"), ALLOWED)
def test_where_a_word_is_allowed_it_stands_for_a_reason(names, word, place, why):
    assert why
    assert where([name for name in names if name.file.startswith(place)], word)


def test_all_of_the_tree_is_looked_at(names):
    assert {name.file.partition("/")[0] for name in names} == set(FOLDERS)
    assert sum(name.file.endswith(".sql") for name in names) > 300
    assert len(names) > 30_000


SAMPLE = '''
"""What is told here is a sentence, and `told` in it no name."""
import harness.facts as told_facts

log.info("told.failed", told=1)
log.info("who is told")

class ToldOwners:
    def when_told(self, octets: int) -> None:
        self.untold = [told for told in self.said]

def test_who_is_told():
    most, MOST_ITEMS, Session, session = 1, 2, 3, 4
    patience(longest=most)
'''


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("told", ["told_facts", "told.failed", "ToldOwners", "when_told", "told"]),
        ("untold", ["untold"]),
        ("octets", ["octets"]),
        ("MOST", ["MOST_ITEMS"]),
        ("Session", ["Session"]),
        ("LONGEST", []),
        ("PATIENCE", []),
    ],
)
def test_a_denied_word_is_found_in_whatever_is_named(word, found):
    names = {name for _, name in python_names(SAMPLE)}
    assert {name for name in names if is_denied(name, word)} == set(found)


def test_a_denied_word_is_found_in_sql_and_in_file_names(tmp_path):
    folder = tmp_path / "component"
    folder.mkdir()
    (folder / "write.sql").write_text(
        "-- all_told: everybody was told\nUPDATE told SET told = 1;\n"
    )
    (folder / "told.py").write_text("")
    (folder / "tool").write_text("#!/usr/bin/env python3\ntold = 1\n")
    (folder / "notes.md").write_text("told = 1\n")
    names = list(names_in(tmp_path))
    assert where(names, "told") == [
        "component/told.py:1 told",
        "component/tool:2 told",
        "component/write.sql:1 all_told",
    ]
    assert where(names, "told", ["component/told.py", "component/write.sql"]) == [
        "component/tool:2 told"
    ]
