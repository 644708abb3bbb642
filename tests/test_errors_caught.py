"""No `except` holds two meanings: a builtin error that many things raise is caught around one of them.

`OSError` is a disk's and a socket's, `ValueError` is of what a user wrote and of a fault of ours, `TimeoutError` is of the end of our
patience and of the kernel's. Who catches one around several sources takes one for the other: a client that goes away ends the program,
because its journal seems to be broken. Errors of our own have one meaning each, and are caught around as much as one likes.
"""

import ast
import builtins
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("component/pubqueue", "xeps/pubqueue_xeps", "spark/pubqueue_spark")

SHARED = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""Builtin errors, with those below them, that do not say who raised them."""

DISKS = [
    "copyfile",
    "fdatasync",
    "flock",
    "fsync",
    "ftruncate",
    "mkdir",
    "mkdtemp",
    "open",
    "pwrite",
    "read_bytes",
    "read_text",
    "rename",
    "samestat",
    "stat",
    "unlink",
    "write_bytes",
    "write_text",
]
SOCKETS = [
    "accept",
    "bind",
    "connect",
    "connect_accepted_socket",
    "create_connection",
    "create_server",
    "create_unix_connection",
    "drain",
    "end_sending",
    "getaddrinfo",
    "listen",
    "send_bytes",
    "sendall",
    "sendto",
    "setsockopt",
    "write_eof",
]
"""Names of functions that reach a disk, and a network."""

COMMAND = (
    "a command of one request: the client library promises ValueError for what was asked wrongly"
)
REASONS = {
    "cli/doctor.py doctor": COMMAND,
    "cli/publish.py _run": COMMAND,
    "cli/session.py run": COMMAND,
    "cli/session.py NodeName.shell_complete": "a completion shows nothing after any error",
    "faces/http/host.py _decoding": "its users call nothing but a library's reader of bodies",
    "faces/listener/listener.py Listener._begin": "all of it is about one client's socket",
    "faces/push/client.py PushClient._drop": "one stream, of which nobody needs the end",
}
"""Those that catch around more, and why that is one meaning all the same."""


def shared(handler):
    """Return the shared errors that a handler catches and does something about, of which it does not ask whose they are."""
    kind, first = handler.type, handler.body[0]
    if kind is None or (isinstance(first, ast.Raise) and first.exc is None):
        return set()
    names = [ast.unparse(one) for one in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
    found = {name: getattr(builtins, name, None) for name in names}
    asks = any(
        isinstance(node, ast.Attribute) and node.attr == "expired" for node in inside(handler.body)
    )
    return {
        name
        for name, error in found.items()
        if isinstance(error, type)
        and issubclass(error, SHARED)
        and not (asks and error is TimeoutError)
    }


def inside(statements):
    """Return all nodes that run with these statements; functions that are only made there do not."""
    found, todo = [], list(statements)
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            found.append(node)
            todo += ast.iter_child_nodes(node)
    return found


def sources(body, errors, *, manages):
    """Return of what several sources these errors can be, if they are caught around this body; or nothing."""
    nodes = inside(body)
    calls = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    names = {call.rpartition(".")[2] for call in calls if not call.startswith("sqlite3.")}
    of_system = any(issubclass(getattr(builtins, name), OSError) for name in errors)
    if of_system and not names.isdisjoint(DISKS) and not names.isdisjoint(SOCKETS):
        return "a disk and a network"
    if "asyncio.run" in calls:
        return "a whole program"
    if manages and any(isinstance(node, ast.Yield) for node in nodes):
        return "whatever is done in the block"
    waits = sum(isinstance(node, ast.Await | ast.AsyncFor) for node in nodes)
    steps = sum(isinstance(node, ast.stmt) and not hasattr(node, "body") for node in nodes)
    return "a wait and more" if (waits and steps > 1) or waits > 1 else ""


def found_in(tree, within="", *, manages=False):
    """Yield each function that catches shared errors around several sources, with the sentence."""
    for node in ast.iter_child_nodes(tree):
        name, its = within, manages
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}.{node.name}".lstrip(".")
            its = any("contextmanager" in ast.unparse(one) for one in node.decorator_list)
        if isinstance(node, ast.Try):
            errors = set().union(*map(shared, node.handlers))
            if errors and (several := sources(node.body, errors, manages=its)):
                yield name, f"{', '.join(sorted(errors))} around {several}"
        yield from found_in(node, name, manages=its)


@pytest.mark.parametrize(
    ("body", "several"),
    [
        ("try: os.fsync(1); at.write_eof()\nexcept OSError: stop()", "OSError around a disk and a network"),
        ("try: os.fsync(1); at.connect()\nexcept (KeyError, TimeoutError): stop()", "KeyError, TimeoutError around a disk and a network"),
        ("try: os.fsync(1); at.write_eof()\nexcept DiskError: stop()", None),
        ("try: os.fsync(1)\nexcept OSError: stop()", None),
        ("try: os.fsync(1); at.write_eof()\nexcept OSError: raise", None),
        ("try: asyncio.run(serve())\nexcept ValueError: stop()", "ValueError around a whole program"),
        ("try: asyncio.run(serve())\nexcept ConfigError: stop()", None),
        ("try: await a()\nexcept ValueError: pass", None),
        ("try: await a(); b()\nexcept ValueError: pass", "ValueError around a wait and more"),
        ("try: await a(await b())\nexcept KeyError: pass", "KeyError around a wait and more"),
        ("try:\n async with timeout(1): await a()\nexcept TimeoutError: pass", None),
        ("try:\n async with timeout(1): await a(); await b()\nexcept TimeoutError: pass", "TimeoutError around a wait and more"),
        ("try:\n async with end: await a(); await b()\nexcept TimeoutError:\n if not end.expired(): raise", None),
        ("try:\n def a(): asyncio.run(b())\nexcept ValueError: pass", None),
    ],
)  # fmt: skip
def test_two_meanings_are_found(body, several):
    lines = "\n".join(f" {line}" for line in body.split("\n"))
    found = list(found_in(ast.parse(f"async def work():\n{lines}")))
    assert found == ([] if several is None else [("work", several)])


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("", []),
        ("@contextmanager\n", [("a.f", "OSError around whatever is done in the block")]),
    ],
)
def test_an_error_in_the_block_of_a_manager_is_not_its_own(made, found):
    source = f"class a:\n{made and ' ' + made} def f():\n  try: yield 1\n  except OSError: stop()"
    assert list(found_in(ast.parse(source))) == found


def test_no_except_holds_two_meanings():
    wrong, known = [], set()
    for folder in FOLDERS:
        files = sorted((ROOT / folder).rglob("*.py"))
        assert files, folder
        for file in files:
            place = file.relative_to(ROOT / folder)
            for name, several in found_in(ast.parse(file.read_text("utf-8"))):
                known.add(f"{place} {name}")
                if f"{place} {name}" not in REASONS:
                    wrong.append(f"{place} {name}: {several}")
    assert wrong == []
    assert known == REASONS.keys()  # a reason that is not needed any more goes
