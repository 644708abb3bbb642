"""Programs of tests end by Ctrl-C, wherever the tests run themselves."""

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from harness.processes import interrupts
interrupts.hear()
waiting = "import signal; print(flush=True); signal.pause()"
with subprocess.Popen([sys.executable, "-Ic", waiting], stdout=-1, stderr=-3) as child:
    child.stdout.readline()
    child.send_signal(int(sys.argv[2]))
    try:
        print(child.wait(5))
    finally:
        child.kill()
"""
IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh")


def test_a_program_in_the_background_gets_interrupts():
    for number in (signal.SIGINT, signal.SIGQUIT):
        command = (sys.executable, "-Ic", PROGRAM, Path(__file__).parents[2], str(int(number)))
        ran = subprocess.run(
            [*IN_THE_BACKGROUND, *command], capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stdout.strip()) == (0, str(-number)), ran.stderr
