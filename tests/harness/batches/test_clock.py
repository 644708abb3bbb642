"""The clock that stands still: for its owner, and for another process that follows it."""

import subprocess
import sys
import time

from harness.batches import clock
from harness.batches.clock import Clock

LOOKER = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(clock.__file__.rpartition("/harness/")[0])!r})
from harness.batches import clock
follows = clock.follow(Path(sys.argv[1]))
for line in sys.stdin:
    follows.advance(float(line))
    print(time.time_ns(), flush=True)
"""


def test_it_stands_but_for_the_time_that_is_let_pass():
    stands = Clock()
    before = stands.now()
    assert abs(before - time.time()) < 60
    assert stands.now() == before
    stands.advance(0.5)
    assert round(stands.now() - before, 3) == 0.5


def test_a_follower_has_the_time_of_the_clock_and_may_advance_it(tmp_path):
    stands = Clock(tmp_path / "calendar")
    command = [sys.executable, "-Ic", LOOKER, tmp_path / "calendar"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as looker:

        def look(advance=0.0):
            looker.stdin.write(f"{advance}\n")
            return int(looker.stdout.readline())

        assert look() == look() == stands.nanoseconds()
        stands.advance(3600)
        assert look() == stands.nanoseconds()
        before = stands.nanoseconds()
        assert look(advance=0.25) == stands.nanoseconds() == before + 250_000_000
        looker.stdin.close()
    assert looker.returncode == 0
