"""Ids of outgoing stanzas: no two are the same, whatever process makes them."""

import subprocess
import sys

from pubqueue.faces.xmpp.xml.stanza import new_id

FORKED = """
import os, sys
from pubqueue.faces.xmpp.xml.stanza import new_id
new_id()
if os.fork():
    os.wait()
print(*(new_id() for _ in range(3)), flush=True)
"""


def test_no_two_are_the_same():
    made = [new_id() for _ in range(1000)]
    assert made == sorted(set(made)), "a list of subscriptions is in this order"


def test_a_forked_process_has_ids_of_its_own():
    ended = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True
    )

    assert len(set(ended.stdout.split())) == 6
