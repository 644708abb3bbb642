"""The ports of programs that tests start: two processes that ask at the same time never get the same."""

import json
import subprocess
import sys
from itertools import chain

from pubqueue.loopback import BLOCK, free_ports

ASKING = f"""
import json
from pubqueue.loopback import free_ports
print(json.dumps(free_ports({BLOCK // 2}) + free_ports({BLOCK // 4})), flush=True)
input()
"""
PROCESSES = 8


def test_no_two_processes_have_the_same_while_nobody_listens():
    asking = [
        subprocess.Popen([sys.executable, "-c", ASKING], stdin=-1, stdout=-1, text=True)
        for _ in range(PROCESSES)
    ]
    lists = [json.loads(process.stdout.readline()) for process in asking]
    ports = [*free_ports(1), *chain(*lists)]  # while all have theirs
    for process in asking:
        process.communicate("\n")
    assert len(set(ports)) == len(ports) == 1 + PROCESSES * (BLOCK // 2 + BLOCK // 4)
