"""What is promised of a disk holds on one that forgets what was not synced: of the store, of the sender's pending file and of curb's journal."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from random import Random

from proof.disk.load import bring_through
from proof.disk.mounting import ForgetfulDisk
from proof.judge.history import History, digest, judged
from pubqueue.curb.journal import DELIVERED, DONE, Journal
from pubqueue_xeps.errors import PendingFailed
from pubqueue_xeps.xep_qos.levels import Level, Step
from pubqueue_xeps.xep_qos.pending_file import Outgoing, PendingFile

ROUNDS = 8
"""How often the power fails."""


async def test_the_service_loses_nothing_that_was_confirmed_when_the_power_fails(tmp_path):
    with ForgetfulDisk(tmp_path) as disk:
        histories = await bring_through(tmp_path, disk, 300, 6, disk.lose_power)
    judgement = judged(histories)
    assert judgement.is_right, judgement.lines


async def test_the_service_on_a_disk_that_lies_is_found_to_lose(tmp_path):
    """So that it is seen that the judge would find it."""
    with ForgetfulDisk(tmp_path, "--lying") as disk:
        histories = await bring_through(tmp_path, disk, 40, 1, disk.kill)
    assert not judged(histories).is_right


def outgoing(number, message):
    steps = {"level": next(iter(Level)), "step": next(iter(Step)), "since": 0.0}
    names = {"sender": "a@x/1", "peer": "b@x", "msg_id": f"m{number}"}
    ids = {"iq_id": f"i{number}", "deliver_id": f"d{number}"}
    return Outgoing(number=number, message=message, **names, **ids, **steps)


async def kept(pending, history, number, random):
    """Keep a message that is being sent."""
    text = "x" * random.choice((10, 1000, 20_000))
    publish = history.begin("publish", "pending", f"m{number}", digest=digest(text))
    with suppress(PendingFailed):
        await pending.keep(outgoing(number, text))
        publish.end("ok")


async def test_the_file_of_pending_messages_loses_none_that_was_kept(tmp_path):
    random, history = Random(1), History(tmp_path / "sender.jsonl", "sender")
    numbers = itertools.count(1)
    with ForgetfulDisk(tmp_path) as disk:
        path = disk.path / "pending"
        for _ in range(ROUNDS):
            pending = PendingFile(path)
            keeping = [
                asyncio.create_task(kept(pending, history, next(numbers), random))
                for _ in range(60)
            ]
            await asyncio.wait(keeping[: random.randrange(1, 60)])
            await asyncio.to_thread(disk.lose_power)
            await asyncio.gather(*keeping)
            with suppress(Exception):  # its disk is gone
                pending.close()
            disk.start()
        pending = PendingFile(path)
        rows = pending.outgoing.values()
        history.read("pending", [(row.msg_id, digest(row.message), "waiting") for row in rows])
        pending.close()
    judgement = judged([tmp_path / "sender.jsonl"])
    assert judgement.is_right, judgement.lines


class Hand:
    """Appends to a journal and marks what is in it, and confirms it by a sync, as curb does."""

    def __init__(self, history, seed):
        self.random, self.history = Random(seed), history
        self.count = 0

    def go_on(self, journal, syncs):
        for _ in range(syncs):
            begun = [*self._appended(journal), *self._done(journal)]
            journal.sync()
            for operation in begun:
                operation.end("ok")
        # and what nobody confirms
        self._appended(journal)
        self._done(journal)

    def _appended(self, journal):
        begun = []
        for _ in range(self.random.randrange(6)):
            self.count += 1
            body = f"{self.count} ".encode() + b"y" * self.random.choice((1, 500, 5000))
            name = f"m{self.count}"
            begun.append(self.history.begin("publish", "curb", name, digest=digest(body)))
            journal.append(body)
        return begun

    def _done(self, journal):
        begun, number = [], 0
        while (number := journal.next_behind(number)) is not None:
            if self.random.random() < 0.5:
                body = journal.body(number)
                name, token = f"m{body.split()[0].decode()}", f"{self.random.random()}"
                self.history.deliver("curb", name, digest=digest(body), token=token)
                journal.mark(number, DELIVERED)
                if self.random.random() < 0.7:
                    begun.append(self.history.begin("retract", "curb", name, token=token))
                    journal.mark(number, DONE)
        return begun


def test_the_journal_of_curb_loses_nothing_and_brings_nothing_back(tmp_path):
    history = History(tmp_path / "curb.jsonl", "curb")
    hand = Hand(history, 1)
    with ForgetfulDisk(tmp_path) as disk:
        for _ in range(ROUNDS):
            journal = Journal(disk.path / "journal", 1 << 20)
            hand.go_on(journal, hand.random.randrange(1, 12))
            disk.lose_power()
            with suppress(OSError):
                journal.close()
            disk.start()
        journal = Journal(disk.path / "journal", 1 << 20)
        left, number = [], 0
        while (number := journal.next_behind(number)) is not None:
            body = journal.body(number)
            left.append((f"m{body.split()[0].decode()}", digest(body), "waiting"))
        history.read("curb", left)
        journal.close()
    judgement = judged([tmp_path / "curb.jsonl"])
    assert judgement.is_right, judgement.lines
