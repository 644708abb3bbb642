"""A program is killed between every two steps of a message: nothing is lost, and with `assured` nothing arrives twice."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from harness.patience import TIMEOUT

from pubqueue_xeps.xep_qos.pending_file import PendingFile

PROGRAM = Path(__file__).parents[2] / "harness" / "processes" / "qos_sender.py"
QOS = "{urn:xmpp:qos}"
STEPS = {"assured": 2, "acknowledged": 1}
POINTS = [
    (level, point, number)
    for level, sendings in STEPS.items()
    for point, times in [
        ("before-commit", sendings + 1),
        ("after-commit", sendings + 1),
        ("before-send", sendings),
        ("after-send", sendings),
        ("answer", sendings),
    ]
    for number in range(1, times + 1)
]


class Service:
    """The other side of one sender: what it keeps, remembers and has published."""

    def __init__(self):
        self.published, self.held, self.ended = 0, set(), set()

    def answer(self, stanza):
        iq = fromstring(stanza)
        asked = iq[0]
        inner = ""
        if asked.tag == f"{QOS}acknowledged":
            self.published += 1
        elif asked.tag == f"{QOS}assured":
            key = asked.get("msgId")
            if (key, iq.get("id")) not in self.ended:
                self.held.add((key, iq.get("id")))
            inner = f"<received xmlns='urn:xmpp:qos' msgId='{key}'/>"
        else:
            (kept,) = [one for one in self.held | self.ended if one[0] == asked.get("msgId")]
            if kept in self.held:
                self.held.remove(kept)
                self.ended.add(kept)
                self.published += 1
        return f"<iq xmlns='jabber:client' type='result' id='{iq.get('id')}' from='{iq.get('to')}'>{inner}</iq>"


def run(service, *arguments):
    """Run the program with the service at its other end; return how it ended."""
    program = subprocess.Popen(
        [sys.executable, "-I", PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    with suppress(BrokenPipeError), program:
        for line in program.stdout:
            program.stdin.write(service.answer(line) + "\n")
    return program.wait(TIMEOUT)


@pytest.mark.covers("QS-025")
@pytest.mark.parametrize(("level", "point", "number"), POINTS)
def test_a_killed_sender_goes_on_where_it_was(tmp_path, level, point, number):
    path, service = str(tmp_path / "pending.db"), Service()
    assert run(service, path, level, point, str(number)) == -signal.SIGKILL
    assert run(service, path, level, "-", "0") == 0
    begun = (point, number) != ("before-commit", 1)  # nothing was written, and nothing sent
    if level == "assured" or not begun:
        assert service.published == begun
    else:
        assert 1 <= service.published <= 2
    file = PendingFile(path)
    assert not file.outgoing
    file.close()


MESSAGE = "<message xmlns='jabber:client'><x xmlns='y'/></message>"
REQUESTS = [
    f"<assured xmlns='urn:xmpp:qos' msgId='7'>{MESSAGE}</assured>",
    "<deliver xmlns='urn:xmpp:qos' msgId='7'/>",
]
LEFT = {("after-commit", 2), ("before-send", 2), ("after-send", 2)}
"""Where the end of the message is on disk, and it was not handed on yet (decision 126)."""


@pytest.mark.covers("QS-044")
@pytest.mark.parametrize(
    ("point", "number"),
    [
        (p, n)
        for p in ("before-commit", "after-commit", "before-send", "after-send")
        for n in (1, 2)
    ],
)
def test_a_killed_receiver_hands_a_message_on_at_most_once(tmp_path, point, number):
    path, at, handed, kills = str(tmp_path / "held.db"), (point, str(number)), 0, 0
    asked = 0
    while asked < len(REQUESTS):
        program = subprocess.Popen(
            [sys.executable, "-I", PROGRAM, path, "receive", *at],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        with suppress(BrokenPipeError), program:
            while asked < len(REQUESTS):
                iq = f"<iq xmlns='jabber:client' type='set' id='{asked}' from='a@b/c'>{REQUESTS[asked]}</iq>"
                program.stdin.write(iq + "\n")
                if not (line := program.stdout.readline()):
                    break
                assert "type='result'" in line
                asked += 1
            program.stdin.close()
            handed += program.stdout.read().count("handed")
        kills += program.wait(TIMEOUT) == -signal.SIGKILL
        at = "-", "0"
    assert (kills, handed) == (1, (point, number) not in LEFT)
