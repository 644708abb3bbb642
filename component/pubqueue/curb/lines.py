r"""A line of the journal: `003 rdy third`, its number, its state and its body.

Plain text is written unchanged. A backslash, a line feed, a carriage return and a NUL are `\\`, `\n`, `\r` and `\0`; the bytes of
other control characters, and bytes that are not UTF-8, are `\x` and two hexadecimal digits. So a line has no NUL, and only one
line feed, at its end.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from msgspec import Struct

STATE: Final = 3
"""Bytes of a state: all have the same length, so that one is written over the other."""
READY: Final = b"rdy"
"""The message is queued."""
DELIVERED: Final = b"wip"
"""The message has been delivered."""
DONE: Final = b"ack"
"""The message was processed. Its line is removed soon."""

_FORM: Final = re.compile(rb"([0-9]{3,18}) ([rwa][dic][ypk])(?: (.*))?\n", re.DOTALL)
"""A state may be half written: with letters of two states, each in its place."""
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
