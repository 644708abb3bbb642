"""For authors: the tests that a change reaches, and what CI will say of it before it is handed in."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.gate import change
from harness.gate.touched import Touched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.gate.running import Gate

ROUNDS: Final = 3
"""How often each test file that the change touches is run beside a load, each time in another order."""
LOAD: Final = 2
"""Busy processes beside them: one for each core of the smallest machine that CI has."""


def affected(gate: Gate, *, everything: bool) -> int:
    """Run the tests that the change is about, or also those that reach it by other modules; return how pytest ended."""
    touched = Touched(gate.root, gate.paths)
    files = touched.reached() if everything else touched.direct()
    print(f"gate: {len(gate.paths)} files differ from {gate.since[:12]}; {len(files)} test files")
    if not files:
        print("gate: no test is about them; make test runs all")
        return 0
    return subprocess.run(
        [sys.executable, "-Im", "pytest", "-q", "-n", gate.processes, "--daily", *files],
        cwd=gate.root,
        check=False,
    ).returncode


def ready(gate: Gate) -> int:
    """Do what CI will do, in a clean clone, then run the test files of the change three times beside a load; return the worse result."""
    if left := subprocess.run(
        ["git", "status", "--short"], cwd=gate.root, capture_output=True, text=True, check=True
    ).stdout:
        print(f"gate: not committed, and so not judged:\n{left}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "pubqueue")
        subprocess.run(["git", "clone", "--quiet", gate.root, clone], check=True)
        environment = os.environ | {"CI": "true", "CHANGE_BASE": gate.since}
        code = subprocess.run(
            ["bash", ".ci/run"], cwd=clone, env=environment, stdin=subprocess.DEVNULL, check=False
        ).returncode
        return int(bool(code) | _beside_a_load(clone, gate))


def _beside_a_load(clone: Path, gate: Gate) -> bool:
    """Return whether any of them failed, or was killed."""
    tests = sorted(
        path
        for path in gate.paths
        if Path(path).name.startswith("test_") and path.endswith(".py") and (clone / path).is_file()
    )
    failed = False
    with busy(LOAD):
        for turn in range(ROUNDS if tests else 0):
            print(
                f"gate: {len(tests)} test files of the change beside {LOAD} busy processes, {turn + 1} of {ROUNDS}",
                flush=True,
            )
            seed = (change.seed(clone) or 0) + turn
            words = [
                ".venv/bin/python",
                "-Im",
                "pytest",
                "-q",
                "-n",
                "2",
                f"--randomly-seed={seed}",
                *tests,
            ]
            failed |= subprocess.run(words, cwd=clone, check=False).returncode != 0
    return failed


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep this many processes busy within the body."""
    processes = [
        subprocess.Popen([sys.executable, "-Ic", "while True: pass"]) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
