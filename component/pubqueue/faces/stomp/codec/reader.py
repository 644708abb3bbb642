"""Reads the frames that one side of a connection sends, in whatever pieces its bytes arrive.

Pass received bytes to `receive`, then call `next_event` until it returns None: more bytes are needed. Between two events the
version may change (`agree`), and reading may pause while the frames that were read are processed: then pass on no more bytes, and
no more is ever kept than the bounds and the bytes that were passed on last.

The result depends on the bytes alone, and not on where they are cut. So a bound is broken as soon as it is known, lines are
judged in their order, and a fault in a line is reported with the whole head, unless a bound is broken first.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from msgspec import Struct

from pubqueue.faces.stomp.codec.bounds import FrameBounds
from pubqueue.faces.stomp.codec.commands import Command, Side, commands_of
from pubqueue.faces.stomp.codec.faults import Cause, Fault, FrameError
from pubqueue.faces.stomp.codec.frame import Frame
from pubqueue.faces.stomp.codec.heads import Heads
from pubqueue.faces.stomp.codec.versions import UNAGREED, Version

_ENDS: Final = {True: re.compile(rb"\n\r?\n"), False: re.compile(rb"\n\n")}
"""The end of the last line and the empty line after it, by whether lines may end with CR LF."""
_BEATS: Final = {True: re.compile(rb"(?:\r?\n)*"), False: re.compile(rb"\n*")}
"""Line ends between frames: beats, or the ends that many clients send after each frame."""
_LINE_END: Final = b"\r\n"
_CR: Final = 13
_OVERLAP: Final = 2
"""Bytes of an end of the head that may have arrived already."""
_MAX_DIGITS: Final = 18
"""Digits of a `content-length`: a longer number exceeds any machine."""


class _Head(Struct, gc=False):
    """A head that was read, and whose body is awaited."""

    name: str
    headers: dict[str, str]
    command: Command
    length: int | None
    """Bytes of the body; None: up to the first NUL."""


class FrameReader:
    """Reads what `side` sends, within `bounds`, as 1.2 writes CONNECT until a version is agreed upon."""

    def __init__(self, side: Side = Side.CLIENT, bounds: FrameBounds = FrameBounds()) -> None:  # noqa: B008  # frozen
        self._side, self.bounds = side, bounds
        self._unread = bytearray()
        self._at = self._scanned = 0
        self._lines = self._line_at = 0
        self._head: _Head | None = None
        self._is_over = False
        self.agree(UNAGREED)

    def agree(self, version: Version, bounds: FrameBounds | None = None) -> None:
        """Read everything from now on in this version, and within other bounds if any are given."""
        self.version = version
        self.bounds = bounds or self.bounds
        self._heads = Heads(commands_of(self._side, version), version, self.bounds)
        self._end, self._beats = _ENDS[version.has_crlf], _BEATS[version.has_crlf]

    @property
    def unread(self) -> int:
        """Bytes that are kept: of an unfinished frame, and of frames that were not requested yet."""
        return len(self._unread) - self._at

    def receive(self, data: bytes) -> None:
        """Keep received bytes. After a fault they are dropped."""
        if self._is_over:
            return
        if self._at:
            del self._unread[: self._at]
            self._scanned = max(0, self._scanned - self._at)
            self._line_at -= self._at
            self._at = 0
        self._unread += data

    def next_event(self) -> Frame | Fault | None:
        """Return the next frame, or why it cannot be read, which is the last event; None: there is none yet."""
        if self._is_over:
            return None
        try:
            head = self._head or self._read_head()
            return None if head is None else self._read_body(head)
        except FrameError as problem:
            self._is_over = True
            self._unread.clear()
            self._at = 0
            return problem.fault

    # --- heads ----------------------------------------------------------------------------------

    def _read_head(self) -> _Head | None:
        unread = self._unread
        if self._scanned <= self._at and not self._skip_beats():
            return None
        at = self._at
        limit = at + self.bounds.head + _OVERLAP + 1
        end = self._end.search(unread, max(at, self._scanned - _OVERLAP), limit)
        if end is None:
            self._wait_for_head(at, limit)
            return None
        if end.start() - at > self.bounds.head:
            self._refuse(at)
        name, headers, command = self._heads.read(unread[at : end.start()])
        self._at = self._scanned = end.end()
        self._head = _Head(name, headers, command, _length(headers, command, self.bounds.body))
        return self._head

    def _skip_beats(self) -> bool:
        """Drop the line ends before a frame; return whether other bytes have arrived."""
        unread, at = self._unread, self._at
        if at < len(unread) and unread[at] in _LINE_END:
            found = self._beats.match(unread, at)
            self._at = at = found.end() if found is not None else at
        self._scanned = self._line_at = at
        self._lines = 0
        left = len(unread) - at
        return left > 1 or (left == 1 and not (self.version.has_crlf and unread[at] == _CR))

    def _wait_for_head(self, at: int, limit: int) -> None:
        """Note which lines of an unfinished head have arrived, and end it if a bound is broken."""
        lines = bytes(self._unread[self._line_at : limit]).split(b"\n")
        longest = [self._heads.line_limit(self._lines + n) for n in range(len(lines))]
        self._scanned = len(self._unread)
        self._lines += len(lines) - 1
        self._line_at = self._scanned - len(lines[-1])
        is_long = any(len(line) > most for line, most in zip(lines, longest, strict=True))
        if is_long or self._scanned >= limit or self._lines > self.bounds.headers + 1:
            self._refuse(at)

    def _refuse(self, at: int) -> NoReturn:
        self._heads.refuse(bytes(self._unread[at : at + self.bounds.head + 1]))

    # --- bodies ---------------------------------------------------------------------------------

    def _read_body(self, head: _Head) -> Frame | None:
        unread, at = self._unread, self._at
        end = self._end_of_body(head, at)
        if end is None:
            return None
        if unread[end]:
            raise FrameError(Cause.MALFORMED, _no_nul(head), receipt=head.headers.get("receipt"))
        frame = Frame(head.name, head.headers, bytes(unread[at:end]) if end > at else b"")
        self._at = self._scanned = end + 1
        self._head = None
        return frame

    def _end_of_body(self, head: _Head, at: int) -> int | None:
        """Return where the NUL has to be, or None until that has arrived."""
        unread = self._unread
        if head.length is not None:
            end = at + head.length
            return end if end < len(unread) else None
        end = unread.find(b"\0", self._scanned, at + self.bounds.body + 1)
        if end >= 0:
            return end
        self._scanned = len(unread)
        if self._scanned - at > self.bounds.body:
            raise FrameError(
                Cause.BODY_TOO_LARGE, _too_large(self.bounds.body), head.headers.get("receipt")
            )
        return None


def _length(headers: dict[str, str], command: Command, limit: int) -> int | None:
    """Return how long the body is, by its header or because the command has none; None: up to the first NUL."""
    given, receipt = headers.get("content-length"), headers.get("receipt")
    if given is None:
        return None if command.has_body else 0
    if not given.isascii() or not given.isdigit() or len(given) > _MAX_DIGITS:
        raise FrameError(Cause.MALFORMED, "content-length is not a whole number of bytes", receipt)
    length = int(given)
    if length and not command.has_body:
        raise FrameError(Cause.MALFORMED, "only SEND, MESSAGE and ERROR have a body", receipt)
    if length > limit:
        raise FrameError(Cause.BODY_TOO_LARGE, _too_large(limit), receipt)
    return length


def _too_large(limit: int) -> str:
    return f"a body has at most {limit} bytes"


def _no_nul(head: _Head) -> str:
    if not head.command.has_body:
        return f"{head.name} has no body: behind its headers are an empty line and a NUL"
    return "behind as many bytes of body as content-length has there is no NUL"
