"""A program with a file of pending messages, which can be killed at any step.

    qos_sender.py FILE LEVEL POINT NUMBER

With the LEVEL `receive` it takes requests, a line each, and writes its answers, and `handed` for a message that it hands
on. Otherwise it continues pending messages, or sends one message if POINT is given, and writes each stanza as a line; a line of
its input is an answer. At the POINT, for the NUMBER-th time, it is killed as by `kill -9`: `before-commit`,
`after-commit`, `before-send`, `after-send`, `answer`. Without one (`-`) it ends when there is nothing more to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from xml.etree.ElementTree import fromstring

from pubqueue_xeps.xep_qos import Level, Limits, Retry, pending_file
from pubqueue_xeps.xep_qos.pending_file import PendingFile
from pubqueue_xeps.xep_qos.receiver import Receiver
from pubqueue_xeps.xep_qos.sender import Sender

MESSAGE = '<message xmlns="jabber:client"><x xmlns="y"/></message>'


class Kill:
    """Counts the steps, and ends the process at one of them."""

    def __init__(self, point: str, number: str) -> None:
        self._at = point, int(number)
        self._seen: Counter[str] = Counter()

    def passing(self, point: str) -> None:
        self._seen[point] += 1
        if (point, self._seen[point]) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class Output:
    """A stream whose stanzas are lines."""

    jid = "bot@example.org/one"

    def __init__(self, kill: Kill) -> None:
        self._kill = kill

    def send_text(self, text: str) -> None:
        self._kill.passing("before-send")
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        self._kill.passing("after-send")


def commit_watched(kill: Kill) -> None:
    commit = pending_file.commit

    def watched(database, statements):
        kill.passing("before-commit")
        error = commit(database, statements)
        kill.passing("after-commit")
        return error

    pending_file.commit = watched


async def receive(file: PendingFile, output: Output, requests: asyncio.StreamReader) -> None:
    receiver = Receiver(
        file,
        Limits(),
        reply=output.send_text,
        hand_on=lambda _message: print("handed", flush=True),
        trusts=lambda _jid: True,
    )
    while line := await requests.readline():
        await receiver.take_assured(fromstring(line))


async def main(path: str, level: str, point: str, number: str) -> None:
    kill = Kill(point, number)
    commit_watched(kill)
    loop = asyncio.get_running_loop()
    answers = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(answers), sys.stdin)
    file = PendingFile(path)
    if level == "receive":
        await receive(file, Output(kill), answers)
        file.close()
        return
    sender = Sender(Output(kill), file, Retry(first=3600, longest=3600), check=False)

    async def read() -> None:
        while line := await answers.readline():
            kill.passing("answer")
            sender.read(fromstring(line))

    reading = asyncio.ensure_future(read())
    done = asyncio.Event()
    sender.sent = sender.failed = lambda *_: done.set()
    sender.session_started()
    if point != "-":
        await sender.send("queue.example.org", MESSAGE, Level(level), "7")
    elif file.outgoing:
        sender.resume()
        await done.wait()
    file.close()
    reading.cancel()


asyncio.run(main(*sys.argv[1:]))
