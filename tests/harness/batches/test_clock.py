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
clock.follow(Path(sys.argv[1]))
for _ in sys.stdin:
    print(time.time_ns() // 10**6, flush=True)
"""


def test_it_stands_but_for_the_time_that_passes():
    stands = Clock()
    before = stands.now()
    assert abs(before - time.time()) < 60
    assert stands.now() == before
    stands.advance(0.5)
    after = stands.now()
    assert round(after - before, 3) == 0.5
    with stands.running():
        while stands.now() == after:
            pass
    assert after < stands.now() == stands.now()


def test_a_follower_has_the_time_of_the_clock(tmp_path):
    stands = Clock(tmp_path / "calendar")
    command = [sys.executable, "-Ic", LOOKER, tmp_path / "calendar"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as looker:

        def look():
            looker.stdin.write("\n")
            return int(looker.stdout.readline())

        assert look() == look() == int(stands.now() * 1000)
        stands.advance(3600)
        assert look() == int(stands.now() * 1000)
        with stands.running():
            first = look()
            while look() == first:
                pass
        looker.stdin.close()
    assert looker.returncode == 0
