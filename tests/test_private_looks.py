"""Tests look at private members in few places, and in fewer over time: a rename of a member should break one place."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
PROOF = TESTS.parent / "proof"
MAX_LOOKS = 34
"""Looks in the tests, as ruff's SLF001 counts them; lower it whenever there are fewer."""


def test_there_are_no_more_looks_at_private_members():
    ruff = Path(sys.executable).with_name("ruff")
    words = "check", "--isolated", "--ignore-noqa", "--select", "SLF001", "--output-format", "json"
    said = subprocess.run(
        [ruff, *words, TESTS, PROOF], capture_output=True, text=True, check=False
    ).stdout
    found = Counter(Path(one["filename"]).name for one in json.loads(said))
    assert found.total() > 0, "ruff has looked"
    assert found.total() <= MAX_LOOKS, found.most_common()
