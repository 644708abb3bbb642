"""`tools/vocabulary` points at words that were given up, in whatever is named, and refuses nothing."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "vocabulary"
SAMPLE = '''
"""What is told here is a sentence, and `told` in it no name."""
import harness.facts as told_facts

log.info("told.failed", told=1)
log.info("who is told")

class ToldOwners:
    def when_told(self, octets: int) -> None:
        self.untold = [told for told in self.received]

def test_who_is_told():
    most, MOST_ITEMS, Session, session = 1, 2, 3, 4
    patience(longest=most)
'''


def test_a_word_that_was_given_up_is_shown_in_whatever_is_named(tmp_path):
    files = {
        "sample.py": SAMPLE,
        "write.sql": "-- all_told: everybody was told\nUPDATE told SET told = 1;\n",
        "told.py": "",
        "tool": "#!/usr/bin/env python3\ntold = 1\n",
        "notes.md": "told = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-I", TOOL, *(tmp_path / name for name in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    instead = "use notified, sent, logged or reported"
    assert done.stdout.replace(f"{tmp_path}/", "").splitlines() == [
        f"sample.py:3: told_facts: {instead}",
        f"sample.py:5: told.failed: {instead}",
        f"sample.py:8: ToldOwners: {instead}",
        "sample.py:9: octets: use bytes, or byte_count",
        f"sample.py:9: when_told: {instead}",
        f"sample.py:10: told: {instead}",
        "sample.py:10: untold: use unnotified, or undelivered",
        "sample.py:13: MOST_ITEMS: use MAX_ and what is counted: MAX_BATCH_REQUESTS",
        "sample.py:13: Session: use SqlSession, CommandSession, Login, QueueSession, PublishSession",
        f"write.sql:1: all_told: {instead}",
        f"told.py:1: told: {instead}",
        f"tool:2: told: {instead}",
    ]
