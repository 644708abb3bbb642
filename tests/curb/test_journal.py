"""The journal: readable, never above the cap, any body comes out as it went in, and whatever was confirmed is kept when the process ends at any byte."""

import errno
import os
import subprocess
import sys
from contextlib import closing, suppress
from random import Random

import pytest
from curb.cut_disk import CutDisk, CutError
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.curb.journal import (
    DELIVERED,
    DONE,
    MAX_LINE,
    NEW,
    READY,
    DiskError,
    FullError,
    Journal,
    JournalError,
    TooLargeError,
    Written,
    body_of,
    escaped,
    highest,
    is_torn,
    read,
    written,
)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"third", b"003 rdy third\n"),
        (b"", b"003 rdy \n"),
        (b" two  words ", b"003 rdy  two  words \n"),
        ("ä🐝 \u2028".encode(), "003 rdy ä🐝 \u2028\n".encode()),
        (b"a\nb\r\0\\", b"003 rdy a\\nb\\r\\0\\\\\n"),
        (b"\t\x1b\x7f", b"003 rdy \\x09\\x1b\\x7f\n"),
        ("\x85".encode(), b"003 rdy \\xc2\\x85\n"),
        (b"\xff\xc3", b"003 rdy \\xff\\xc3\n"),
        (b"\xed\xa0\x80", b"003 rdy \\xed\\xa0\\x80\n"),
        (b"\\n", b"003 rdy \\\\n\n"),
    ],
)
def test_a_body_is_readable_in_its_line(body, line):
    assert written(3, body) == line
    assert body_of(line) == body


@given(st.binary() | st.text().map(str.encode))
def test_any_body_comes_out_as_it_went_in(body):  # C04
    line = written(7, body)
    assert (line.count(b"\n"), b"\0" in line) == (1, False)
    assert not set(line[:-1]) & {*range(0x20), 0x7F}
    line.decode()
    assert body_of(line) == body
    assert len(escaped(body)) <= 4 * len(body)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"002 ack second\n", Written(2, is_done=True, is_ready=False)),
        (b"003 rdy third\n", Written(3, is_done=False, is_ready=True)),
        (b"004 wip forth\n", Written(4, is_done=False, is_ready=False)),
        (b"1234567 rdy \n", Written(1234567, is_done=False, is_ready=True)),
        (b"005 ack\n", Written(5, is_done=True, is_ready=False)),
        *[
            (b"006 %b six\n" % state, Written(6, is_done=False, is_ready=False))
            for state in (b"ady", b"acy", b"aip", b"acp", b"wdy", b"wiy", b"rip", b"rdp")
        ],
        *[
            (line, None)
            for line in (
                *(
                    b"",
                    b"\n",
                    b"01 rdy x\n",
                    b"001 rdy x",
                    b"001 rdy\n",
                    b"001 wip\n",
                    b"001 new x\n",
                    b"001 rdy a\0b\n",
                    b"001 ack \0\n",
                ),
                *(b"001  rdy x\n", b"001 rdyx\n", b" 001 rdy x\n", b"abc rdy x\n", b"-01 rdy x\n"),
            )
        ],
    ],
)
def test_a_line_is_a_number_a_state_and_a_body(line, found):
    assert read(line) == found


def test_the_highest_number_is_kept_in_a_line_that_is_done():
    assert highest(7) == b"007 ack\n"
    assert read(highest(12_345)) == Written(12_345, is_done=True, is_ready=False)


@pytest.mark.parametrize(
    ("rest", "number", "torn"),
    [
        *[(written(12, b"abc")[:at], 12, True) for at in range(12)],
        (b"012 wip abc", 12, True),
        (b"012 new abc", 12, False),
        (b"012 rd\0\0\0\0\0", 12, True),
        (b"\0\0\0\n013 rdy later\n", 12, True),
        (b"\0\0\0", 1, True),
        (b"\0\0\0\n", 1, False),
        (b"0", 1, True),
        (b"001 \0\0abc\n", 1, True),
        (b"0\x000\x001\0", 1, False),
        (b"013 rdy a", 12, False),
        (b"\x89PNG\r\n", 1, False),
        (b"GIF89a\0\0", 1, False),
        (b"\0GIF", 1, False),
        (b"text\n", 2, False),
    ],
)
def test_the_rest_of_a_line_after_a_crash_is_distinguished_from_another_file(rest, number, torn):
    assert is_torn(rest, number) is torn


@pytest.fixture
def path(tmp_path):
    return tmp_path / "curb.journal"


@pytest.fixture
def opened(path):
    found = []

    def make(cap=10_000):
        found.append(Journal(path, cap))
        return found[-1]

    yield make
    for one in found:
        one.close()


def reopened(path, cap=10_000):
    """Return what another process finds: the bodies by their numbers, and the highest number."""
    journal = Journal(path, cap)
    found, number = {}, 0
    while (number := journal.next_behind(number)) is not None:
        found[number] = journal.body(number)
    assert journal.count == len(found)
    journal.append(b"")
    new = journal.next_behind(max(found, default=0))
    journal.close()
    return found, new - 1


def test_the_journal_is_the_sample_of_the_idea(path, opened):  # C03
    journal = opened()
    for body in (b"first", b"second", b"third", b"forth", b"forth"):
        journal.append(body)
    journal.mark(1, DONE)
    journal.mark(2, DONE)
    journal.mark(4, DELIVERED)
    journal.sync()
    assert (
        path.read_bytes()
        == b"001 ack first\n002 ack second\n003 rdy third\n004 wip forth\n005 rdy forth\n"
    )
    assert (journal.count, journal.size) == (3, path.stat().st_size)


def test_what_was_not_done_is_ready_in_its_order_after_a_restart(path, opened):
    path.write_bytes(b"002 ack second\n003 rdy third\n004 wip forth\n005 acy fifth\n")
    journal = opened()
    assert path.read_bytes() == b"002 ack second\n003 rdy third\n004 rdy forth\n005 rdy fifth\n"
    assert [journal.next_behind(number) for number in (0, 3, 4, 5)] == [3, 4, 5, None]
    assert journal.append(b"next") == 6


def test_lines_that_are_done_go_when_they_are_many(path, opened):  # C08
    journal = opened()
    for number in range(1, 20):
        journal.append(b"%d" % number)
    for number in range(1, 14):
        journal.mark(number, DONE)
        journal.sync()
    assert path.read_bytes().startswith(b"001 ack 1\n")
    journal.mark(14, DONE)  # 14 are done, 5 are not
    journal.sync()
    assert path.read_bytes() == b"".join(b"%03d rdy %d\n" % (n, n) for n in range(15, 20))


def test_the_highest_number_stays_so_that_numbers_rise_after_a_restart(path):
    journal = Journal(path, 100)
    for _ in range(9):
        journal.mark(journal.append(b"x"), DONE)
    journal.sync()
    assert path.read_bytes() == b"009 ack\n"
    journal.close()
    again = Journal(path, 100)
    assert again.append(b"y") == 10
    again.close()


def test_a_message_for_which_there_is_no_room_writes_nothing(path, opened):
    journal = opened(cap=40)
    journal.append(b"0123456789")
    journal.append(b"")
    before = path.read_bytes()
    with pytest.raises(FullError):
        journal.append(b"0123456789")
    assert (path.read_bytes(), journal.count) == (before, 2)
    journal.mark(1, DONE)  # an ACK needs no room, and makes some
    assert journal.append(b"0123456789") == 3
    assert path.read_bytes() == b"002 rdy \n003 rdy 0123456789\n"


def test_a_message_may_fill_the_journal_again_and_again(path, opened):
    journal = opened(cap=64)
    body = b"x" * (64 - 8 - 9)
    for number in range(1, 30):
        assert journal.append(body) == number
        with pytest.raises(FullError):
            journal.append(b"")
        journal.mark(number, DONE)
        journal.sync()
        assert path.stat().st_size <= 64


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, FullError),
        (errno.EDQUOT, FullError),
        (errno.EFBIG, FullError),
        (errno.EIO, DiskError),
        (errno.EROFS, DiskError),
    ],
)
def test_only_a_disk_without_space_is_full(tmp_path, monkeypatch, number, error):
    with closing(Journal(tmp_path / "j", 1 << 20)) as journal:
        journal.append(b"first")

        def fail(*_args):
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as broken:
            broken.setattr(os, "pwrite", fail)
            with pytest.raises(error):
                journal.append(b"second")
    assert (tmp_path / "j").read_bytes() == b"001 rdy first\n"


def test_a_message_that_can_never_fit_is_distinguished(opened):
    journal = opened(cap=64)
    with pytest.raises(TooLargeError):
        journal.append(b"x" * (64 - 8 - 8))
    with pytest.raises(TooLargeError):
        journal.append(b"\0" * 30)  # which is twice as long in the file
    journal.append(b"\0" * 20)


def test_a_line_has_at_most_262144_bytes(opened):
    journal = opened(cap=10 << 20)
    journal.append(b"x" * (MAX_LINE - 9))
    with pytest.raises(TooLargeError):
        journal.append(b"x" * (MAX_LINE - 8))


@pytest.mark.parametrize(
    "text",
    [
        b"hello\n",
        b"\x7fELF\0\0\0",
        b"001 rdy a\nhello\n",
        b"001 rdy a\n001 rdy b\n",
        b"002 rdy a\n001 rdy b\n",
        b"x" * (MAX_LINE * 2),
    ],
)
def test_a_file_that_is_no_journal_is_left_alone(path, text):
    path.write_bytes(text)
    with pytest.raises(JournalError, match="is not a journal"):
        Journal(path, 10 << 20)
    assert path.read_bytes() == text


def test_a_folder_or_a_device_is_no_journal(tmp_path):
    with pytest.raises(IsADirectoryError):
        Journal(tmp_path, 100)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalError, match="is not a file"):
        Journal(tmp_path / "pipe", 100)


def test_a_cap_below_what_is_queued_is_refused_and_one_below_what_is_done_is_not(path):
    path.write_bytes(b"001 ack %b\n002 rdy b\n" % (b"a" * 100))
    with pytest.raises(JournalError, match="10 bytes, which is more than the cap"):
        Journal(path, 9)
    Journal(path, 10).close()
    assert path.read_bytes() == b"002 rdy b\n"


def test_one_process_has_a_journal_at_a_time(path, opened):
    journal = opened()
    for _ in range(9):
        journal.mark(journal.append(b"x"), DONE)
    journal.sync()  # which has put another file in its place
    with pytest.raises(JournalError, match="in use by another process"):
        Journal(path, 100)
    other = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from pubqueue.curb.journal import *; from pathlib import Path; Journal(Path({str(path)!r}), 100)",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "in use by another process" in other.stderr


# --- ended at every byte ------------------------------------------------------------------------

CAP = 90
BODIES = (b"first", b"two\nlines", b"", b"\xff\0", b"x" * 20, b"sixth")


def life(journal, confirmed, meant):
    """Live through appends, deliveries, ACKs, NACKs, a full journal and compactions; note what is confirmed when it is."""
    random = Random(5)
    held = []
    for turn in range(16):
        try:
            number = journal.append(BODIES[turn % len(BODIES)])
            meant[number] = BODIES[turn % len(BODIES)]
        except FullError:
            number = None
        queued = sorted(set(meant) - confirmed["done"] - set(held))
        if queued:
            journal.mark(queued[0], DELIVERED)
            held.append(queued[0])
        done = held.pop(0) if len(held) > random.randrange(3) else None
        if done is not None:
            confirmed["ending"].add(done)
            journal.mark(done, DONE)
        if len(held) > 1:
            journal.mark(held.pop(), READY)
        journal.sync()
        confirmed["done"] |= {done} - {None}
        confirmed["sent"] |= {number} - {None}


def lived(folder, steps=float("inf")):
    """Return the disk, what was confirmed, and what was meant, of a life that ends after so many bytes and calls."""
    confirmed, meant = {"sent": set(), "done": set(), "ending": set()}, {}
    with CutDisk(CAP, steps) as disk, suppress(CutError):
        life(Journal(folder / "curb.journal", CAP), confirmed, meant)
    return disk, confirmed, meant


def holds(path, confirmed, meant):
    """Whatever was confirmed is there, whatever was confirmed as done is not, and numbers go on rising."""
    found, highest = reopened(path, CAP + 20)
    assert confirmed["sent"] - confirmed["ending"] <= set(found)
    assert not confirmed["done"] & set(found)
    for number, body in found.items():
        assert meant.get(number, body) == body
    assert highest >= max(confirmed["sent"], default=0)
    assert not path.with_name(path.name + NEW).exists()


def test_ended_at_every_byte_it_keeps_what_was_confirmed(tmp_path):  # C05, C08
    whole = tmp_path / "whole"
    whole.mkdir()
    disk, confirmed, _ = lived(whole)
    assert len(confirmed["sent"]) > 9
    assert disk.taken > 300
    for steps in range(disk.taken):
        folder = tmp_path / f"{steps}"
        folder.mkdir()
        cut, confirmed, meant = lived(folder, steps)
        assert cut.left < 0
        holds(folder / "curb.journal", confirmed, meant)


def test_without_power_at_every_byte_it_keeps_what_was_synced(tmp_path):  # C36
    whole = tmp_path / "whole"
    whole.mkdir()
    random = Random(3)
    for steps in range(lived(whole)[0].taken):
        folder = tmp_path / f"{steps}"
        folder.mkdir()
        cut, confirmed, meant = lived(folder, steps)
        if not confirmed["sent"]:
            continue  # whether a file without a line is a journal is said in test_lines.py
        path = folder / "curb.journal"
        now, synced = path.read_bytes(), cut.synced.get(path.name, b"")
        path.write_bytes(what_is_left(random, synced, now))
        holds(path, confirmed, meant)


def what_is_left(random, synced, now):
    """Return a file of which some bytes since the last sync are lost: old ones are as they were, new ones are NUL or missing."""
    length = random.randint(min(len(synced), len(now)), len(now))
    old = synced.ljust(length, b"\0")
    hole = sorted(random.choices(range(length + 1), k=2))
    return now[: hole[0]] + old[hole[0] : hole[1]] + now[hole[1] : length]
