"""Decoders are made before threads begin, or one at a time.

msgspec makes what it knows of a struct when the first decoder for it is made. A thread that decodes the same struct meanwhile ends the
process with a segmentation fault: a service that reads its store with several connections, say, or a worker with handlers in threads.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = ["component/pubqueue", "xeps/pubqueue_xeps", "spark/pubqueue_spark"]

CONVERTS = {
    "xeps/pubqueue_xeps/people/bot.py": "one event loop",
    "xeps/pubqueue_xeps/people/turns.py": "called by that loop alone",
    "component/pubqueue/admin/definitions.py": "a file on a command line, of a process with one thread",
    "component/pubqueue/config/loading.py": "the configuration, before anything else",
    "xeps/pubqueue_xeps/wire/payloads/decoding.py": "beside `_decoder`, which makes one at a time",
}
"""Where values are converted, which needs the same: why it is at hand."""

MADE_WITHIN = {
    ("component/pubqueue/config/loading.py", "_value"): CONVERTS[
        "component/pubqueue/config/loading.py"
    ],
    ("xeps/pubqueue_xeps/wire/payloads/decoding.py", "_decoder"): "one at a time",
}
"""Functions that make a decoder, and why they may."""

THREADS = """
import sys
import threading
from xml.etree.ElementTree import Element

import msgspec

from pubqueue_xeps.wire.payloads.decoding import JSON_PAYLOAD, decode

sys.setswitchinterval(1e-6)
json, xml = Element(JSON_PAYLOAD), Element("flight", number="LH 400")
json.text = '{"number": "LH 400"}'


def made():  # a struct that nobody has read, with others in it
    inner = [msgspec.defstruct(f"Place{n}", ["name"]) for n in range(20)]
    return msgspec.defstruct(
        "Flight", [*((f"field{n}", one | None, None) for n, one in enumerate(inner)), "number"], kw_only=True
    )



def read(barrier, flight):
    for payload in (json, xml):
        barrier.wait()
        assert decode(payload, flight).number == "LH 400"
        assert decode(payload, flight | None if payload is json else flight).number == "LH 400"


for _ in range(100):
    flight, barrier = made(), threading.Barrier(4)
    threads = [threading.Thread(target=read, args=(barrier, flight)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print("done")
"""


def is_decoder(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="Decoder") | ast.Name("Decoder")):
            return True
    return False


def is_made_when_used(node: ast.AST) -> bool:
    """Say whether a call makes a decoder for a type and uses it."""
    match node:
        case ast.Call(func=ast.Attribute(attr="decode"), keywords=keywords):
            return any(one.arg == "type" for one in keywords)
    return False


def is_conversion(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(ast.Name("msgspec"), "convert")):
            return True
    return False


def test_none_is_made_while_others_work():
    made, converts = set(), set()
    for path in (path for program in PROGRAMS for path in (ROOT / program).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text())
        nodes = list(ast.walk(tree))
        if any(map(is_conversion, nodes)):
            converts.add(name)
        for one in nodes:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = list(ast.walk(one))
                if any(map(is_decoder, inside)) or any(map(is_made_when_used, inside)):
                    made.add((name, one.name))
    assert made == MADE_WITHIN.keys()
    assert converts == CONVERTS.keys()


def test_handlers_in_threads_may_read_the_same_struct_first():
    program = [sys.executable, "-I", "-c", THREADS]
    ran = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
