"""The journal: a text file that is the queue, and is never longer than the cap, at any time.

A message is a line at the end. Its state is written over the old one in its place, so that an ACK needs no space. Lines of
messages that are done are removed when there are more of them than others, or when space is needed: the others are written to a
file beside it, which is synced and renamed to the journal's name. In memory are the numbers and the positions of the lines, 17
bytes for each, and no body.

What is kept when the machine stops at any byte:

- A line without its end was never confirmed, and is dropped. So is everything after a NUL: a journal has none, and a file system
may leave some where it lost bytes that were not synced; nothing after them was synced either. - A state that is half written is
not `ack`, so that the message is delivered again. That ACK was not confirmed. - A file beside the journal is not complete, and is
removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

P = ParamSpec("P")
T = TypeVar("T")


FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a disk that has no room; after any other it cannot be trusted."""
MAX_LINE: Final = 262_144
"""Bytes of a message as it is written."""
SPARE: Final = 8
"""By how many the lines that are done may exceed the others."""
NEW: Final = ".new"
"""The suffix of the file beside the journal."""
_COPIED: Final = 1 << 20
"""Bytes that are copied at once."""


class JournalError(Exception):
    """A journal cannot be used. The message is one sentence for the operator."""


class FullError(Exception):
    """There is no space for a message now."""


class TooLargeError(Exception):
    """There is never space for so large a message."""


class DiskError(OSError):
    """The disk cannot be trusted: confirm nothing more, and stop. No other error is one, least of all that of a socket."""


def _on_disk(method: Callable[P, T]) -> Callable[P, T]:
    """Return a method that raises DiskError where it would raise OSError."""

    @wraps(method)
    def call(*args: P.args, **more: P.kwargs) -> T:
        try:
            return method(*args, **more)
        except OSError as problem:
            raise DiskError(*problem.args) from problem

    return call


class Journal:
    """The file at `path`, at most `cap` bytes long. One process has it at a time.

    `append` and `mark` are not on disk before `sync` returns. Any of them, and `body`, may raise DiskError.
    """

    def __init__(self, path: Path, cap: int) -> None:
        """Open the journal, or create an empty one.

        Raises:
            JournalError: the file is something else, another process has it, or it is longer
                than the cap.
            OSError: it cannot be read or written.

        """
        self.path, self.cap = path, cap
        self.count = 0
        """Messages that are not done."""
        self.size = 0
        """Bytes of the file."""
        self._new = path.with_name(path.name + NEW)
        self._numbers, self._places, self._is_done = array("Q"), array("Q"), bytearray()
        self._last = self._done = 0
        self._spare = SPARE
        self._is_dirty = False
        self._file = _opened(path)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the journal for other processes."""
        os.close(self._file)

    # --- messages -------------------------------------------------------------------------------

    @property
    def max_line(self) -> int:
        """Bytes of the longest line for which there is ever space, beside the one that keeps the highest number."""
        return max(0, min(MAX_LINE, self.cap - len(highest(self._last + 1))))

    @_on_disk
    def append(self, body: bytes) -> int:
        """Add a message, and return its number.

        Raises:
            FullError: the file would be longer than the cap, or the disk is full; nothing is written.
            TooLargeError: there is never room for it.

        """
        line = written(self._last + 1, body) if len(body) < self.max_line else b""
        if not line or len(line) > self.max_line:
            raise TooLargeError
        if self.size + len(line) > self.cap and self._done:
            self._compact()
        if self.size + len(line) > self.cap:
            raise FullError
        try:
            _write(self._file, line, self.size)
        except OSError as problem:
            os.ftruncate(self._file, self.size)
            if problem.errno not in FULL:
                raise
            raise FullError from None
        self._last += 1
        self._note(self._last, len(line))
        self.count += 1
        self._is_dirty = True
        return self._last

    @_on_disk
    def mark(self, number: int, state: bytes) -> None:
        """Write the state of a message that is not done."""
        at = bisect_left(self._numbers, number)
        _write(self._file, state, self._places[at] + len(b"%03d " % number))
        if state == DONE:
            self._is_done[at] = True
            self.count -= 1
            self._done += 1
            self._is_dirty = True

    @_on_disk
    def body(self, number: int) -> bytes:
        """Return the body of a message that is not done."""
        at = bisect_left(self._numbers, number)
        return body_of(_read(self._file, self._places[at], self._end(at)))

    def next_behind(self, number: int) -> int | None:
        """Return the number of the first message after this one that is not done."""
        at = self._is_done.find(0, bisect_right(self._numbers, number))
        return None if at < 0 else self._numbers[at]

    @_on_disk
    def sync(self) -> None:
        """Sync what was written, and drop lines that are done if they are many."""
        if self._done >= self.count + self._spare and self._compact():
            return
        if self._is_dirty:
            os.fdatasync(self._file)
            self._is_dirty = False

    def _note(self, number: int, length: int, *, is_done: bool = False) -> None:
        """Note a line that is the last of the file."""
        self._numbers.append(number)
        self._places.append(self.size)
        self._is_done.append(is_done)
        self.size += length

    def _end(self, at: int) -> int:
        return self._places[at + 1] if at + 1 < len(self._places) else self.size

    # --- compaction -----------------------------------------------------------------------------

    def _compact(self) -> bool:
        """Write the lines that are not done to another file, and rename that to the journal; return false if the disk refuses."""
        old, was = self._file, (self._numbers, self._places, self._is_done, self.size)
        new = -1
        try:
            new = os.open(self._new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            fcntl.flock(new, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._copy_to(new)
            os.fsync(new)
            os.rename(self._new, self.path)
        except OSError:
            self._numbers, self._places, self._is_done, self.size = was
            self._spare *= 2  # and not again at each sync
            with suppress(OSError):
                self._new.unlink()
            if new >= 0:
                os.close(new)
            return False
        self._file = new
        os.close(old)
        _sync_folder(self.path)
        self._done, self._spare, self._is_dirty = 0, SPARE, False
        return True

    def _copy_to(self, new: int) -> None:
        """Write the lines that are not done, and the highest number, and note their positions."""
        numbers, places, is_done, end = self._numbers, self._places, self._is_done, self.size
        self._numbers, self._places, self._is_done, self.size = (
            array("Q"),
            array("Q"),
            bytearray(),
            0,
        )
        begin = copied = 0
        for at, number in enumerate(numbers):
            behind = places[at + 1] if at + 1 < len(places) else end
            if is_done[at]:
                copied = _copy(self._file, begin, places[at], new, copied)
                begin = behind
            else:
                self._note(number, behind - places[at])
        copied = _copy(self._file, begin, end, new, copied)
        if self._last and (not self._numbers or self._numbers[-1] != self._last):
            line = highest(self._last)
            _write(new, line, copied)
            self._note(self._last, len(line), is_done=True)

    # --- the start ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Read all lines; drop an incomplete last line, and queue the messages that were delivered."""
        self._new.unlink(missing_ok=True)
        undelivered = self._load()
        os.ftruncate(self._file, self.size)
        for number in undelivered:
            self.mark(number, READY)
        self._is_dirty = True
        if self._done > 1 or self.size > self.cap:
            self._compact()
        if self.size > self.cap:
            raise JournalError(f"{self.path} has {self.size} bytes, which is more than the cap")
        self.sync()
        _sync_folder(self.path)

    def _load(self) -> list[int]:
        """Note all lines; return the numbers of messages whose state is not `rdy`."""
        undelivered = []
        with os.fdopen(os.dup(self._file), "rb") as file:
            while line := file.readline(MAX_LINE + 1):
                found = read(line)
                if found is None or found.number <= self._last:
                    if not is_torn(line, self._last + 1):
                        raise JournalError(
                            f"{self.path} is not a journal: see its line {len(self._numbers) + 1}"
                        )
                    break
                self._last = found.number
                self._note(found.number, len(line), is_done=found.is_done)
                self._done += found.is_done
                self.count += not found.is_done
                if not found.is_done and not found.is_ready:
                    undelivered.append(found.number)
        return undelivered


def _opened(path: Path) -> int:
    """Return the file of the journal, which no other process has."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise JournalError(f"{path} is not a file")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except BlockingIOError:
            os.close(file)
            raise JournalError(f"{path} is in use by another process") from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # another process has just replaced it


def _write(file: int, data: bytes, place: int) -> None:
    """Write all of it."""
    while data:
        count = os.pwrite(file, data, place)
        data, place = data[count:], place + count


def _read(file: int, begin: int, end: int) -> bytes:
    data = os.pread(file, end - begin, begin)
    if len(data) != end - begin:
        raise OSError("somebody has shortened it")
    return data


def _copy(old: int, begin: int, end: int, new: int, place: int) -> int:
    """Copy a part of a file; return the position after it."""
    while begin < end:
        data = _read(old, begin, min(end, begin + _COPIED))
        _write(new, data, place)
        begin, place = begin + len(data), place + len(data)
    return place


def _sync_folder(path: Path) -> None:
    """Sync the name of a file."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# A line of the journal: `003 rdy third`, its number, its state and its body.
#
# Plain text is written unchanged. A backslash, a line feed, a carriage return and a NUL are `\\`, `\n`, `\r` and `\0`; the bytes of
# other control characters, and bytes that are not UTF-8, are `\x` and two hexadecimal digits. So a line has no NUL, and only one
# line feed, at its end.

READY: Final = b"rdy"
"""The message is queued."""
DELIVERED: Final = b"wip"
"""The message has been delivered."""
DONE: Final = b"ack"
"""The message was processed. Its line is removed soon."""

_FORM: Final = re.compile(rb"([0-9]{3,18}) ([rwa][dic][ypk])(?: ([^\0\n]*))?\n")
"""No line is written with a NUL: one that has some was not synced. A state may be half written: with letters of two states, each in its place."""
_BEGUN: Final = re.compile(rb"[rwa](?:[dic](?:[ypk](?: .*)?)?)?", re.DOTALL)
"""What may follow the number in an incomplete line."""
_LONG: Final = MappingProxyType({b"\\": b"\\", b"n": b"\n", b"r": b"\r", b"0": b"\0"})
_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_NO_UTF8: Final = range(0xDC80, 0xDD00)
"""How bytes that are not UTF-8 are read."""
_ESCAPED: Final = MappingProxyType(
    {
        **{code: "".join(f"\\x{byte:02x}" for byte in chr(code).encode()) for code in _CONTROLS},
        **{code: f"\\x{code - 0xDC00:02x}" for code in _NO_UTF8},
        **str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0"}),
    }
)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)


class Written(Struct, frozen=True, gc=False):
    """A line as it was read. A message that is not done is delivered again, whatever state a crash left."""

    number: int
    is_done: bool
    is_ready: bool
    """Whether the state is the word for it."""


def written(number: int, body: bytes) -> bytes:
    """Return the line of a queued message."""
    return b"%03d %b %b\n" % (number, READY, escaped(body))


def highest(number: int) -> bytes:
    """Return the line that keeps the highest number after its message was removed."""
    return b"%03d %b\n" % (number, DONE)


def read(line: bytes) -> Written | None:
    """Read a line; None: it is not a line of a journal."""
    found = _FORM.fullmatch(line)
    if found is None or (found[3] is None and found[2] != DONE):
        return None
    return Written(int(found[1]), found[2] == DONE, found[2] == READY)


def body_of(line: bytes) -> bytes:
    """Return the body of a line."""
    escaped_body = line.split(b" ", 2)[2][:-1]
    return _ESCAPE.sub(_meant, escaped_body) if b"\\" in escaped_body else escaped_body


def escaped(body: bytes) -> bytes:
    """Return a body as it is written."""
    return body.decode("utf-8", "surrogateescape").translate(_ESCAPED).encode()


def is_torn(rest: bytes, number: int) -> bool:
    """Return whether a crash may have left this of the line with this number, the first that was not synced."""
    begun, nul, _ = rest.partition(b"\0")
    head = b"%03d " % number
    if nul and number == 1 and len(begun) <= len(b"001"):
        return not rest.strip(b"\0")  # a file that has nothing else may not be a journal
    if len(begun) <= len(head):
        return head.startswith(begun)
    return begun.startswith(head) and _BEGUN.fullmatch(begun, len(head)) is not None


def _meant(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[1].decode()) if found[1] else _LONG.get(found[2], found[0])
