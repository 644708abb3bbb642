"""The unit of systemd: nothing in it is wrong, and it lets the service do nothing that it does not need."""

import json
import re
import subprocess
from pathlib import Path

from harness.documents.documented import ROOT

from pubqueue.cli import COMMANDS

UNIT = ROOT / "packaging" / "systemd" / "pubqueue.service"
MAX_EXPOSED = 1.5
"""The overall figure of `systemd-analyze security`, of 10; below 2 systemd calls it OK."""


def test_systemd_finds_nothing_wrong(tmp_path):
    """What it starts is told by a path that is there; the rest is as it stands."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/pubqueue", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_is_exposed_to_little():
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--json=short", UNIT],
        capture_output=True,
        text=True,
        check=True,
    )
    checks = json.loads(done.stdout)
    assert len(checks) > 50
    plain = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", UNIT],
        capture_output=True,
        text=True,
        check=True,
    )
    figure = re.search(r"exposure level for \S+: ([0-9.]+)", plain.stdout)
    assert figure is not None
    assert float(figure[1]) <= MAX_EXPOSED


def test_what_it_starts_is_a_command_of_ours():
    start = re.search(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert start is not None
    program, command, *words = start[1].split()
    assert (program, command in COMMANDS) == ("/usr/bin/pubqueue", True)
    assert words == ["--config", "/etc/pubqueue/pubqueue.toml"]
    assert Path(words[1]).is_absolute()
