"""What other tests start warm starts in the ordinary way too: one command of each module of the command line."""

import subprocess

import pytest
from harness.patience import TIMEOUT
from harness.starts import warm_start
from harness.starts.warm_start import PUBQUEUE

from pubqueue.cli import COMMANDS, OPERATING

STARTED = {module: name for name, (module, _extra) in COMMANDS.items()} | {OPERATING: "queues"}
"""For each module one of its commands; the others have the same imports."""


@pytest.mark.parametrize("command", STARTED.values())
def test_a_command_starts_by_itself_and_is_the_one_that_starts_warm(command):
    words = (command, "--help")
    cold = subprocess.run(
        (PUBQUEUE, *words), capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    warm = warm_start.run(*words)
    assert (cold.returncode, cold.stderr) == (0, "")
    assert cold.stdout.startswith(f"Usage: pubqueue {command} ")
    assert (warm.returncode, warm.stdout, warm.stderr) == (0, cold.stdout, "")
