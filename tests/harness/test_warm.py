"""What a warm start may rely on: a module that draws a random value when it is imported draws another after a fork."""

import subprocess
import sys

from harness.processes import warm
from harness.starts import fork_server

from pubqueue.cli import COMMANDS, OPERATING

MODULES = {OPERATING, *warm.MODULES, *fork_server.LIBRARIES, *fork_server.OURS}
MODULES |= {module for module, _extra in COMMANDS.values()}

DRAWS_AGAIN = {"pubqueue.faces.xmpp.xml.stanza"}
"""Shown by `tests/faces/xmpp/xml/test_stanza.py`."""

WATCHED = """
import os, random, sys, uuid
from importlib import import_module
for module in {libraries}:
    import_module(module)
drawn = os.urandom
def watched(size):
    frame = sys._getframe()
    while frame.f_code.co_name != "<module>":
        frame = frame.f_back
    print(frame.f_globals["__name__"])
    return drawn(size)
os.urandom = random._urandom = watched
for module in {ours}:
    import_module(module)
"""


def that_draw(*ours, libraries):
    code = WATCHED.format(libraries=libraries, ours=list(ours))
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_what_draws_a_random_value_when_it_is_imported_draws_another_after_a_fork():
    libraries = [module for module in MODULES if not module.startswith("pubqueue.")]
    ours = [module for module in MODULES if module.startswith("pubqueue.")]

    assert that_draw(*ours, libraries=libraries) == DRAWS_AGAIN


def test_a_module_that_draws_one_is_found(tmp_path, monkeypatch):
    (tmp_path / "drawing.py").write_text("import secrets\nvalue = secrets.token_hex()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert that_draw("drawing", libraries=[]) == {"drawing"}
