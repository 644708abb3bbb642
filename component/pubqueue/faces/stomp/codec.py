"""Reads the frames that one side of a connection sends, in whatever pieces its bytes arrive.

Pass received bytes to `receive`, then call `next_event` until it returns None: more bytes are needed. Between two events the
version may change (`agree`), and reading may pause while the frames that were read are processed: then pass on no more bytes, and
no more is ever kept than the bounds and the bytes that were passed on last.

The result depends on the bytes alone, and not on where they are cut. So a bound is broken as soon as it is known, lines are
judged in their order, and a fault in a line is reported with the whole head, unless a bound is broken first.
"""

from __future__ import annotations

import re
from enum import Enum, StrEnum, unique
from sys import getsizeof
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

from msgspec import Struct

from pubqueue_xeps.wire.names import NOT_CARRIED, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# The maximum sizes of a frame.


class FrameBounds(Struct, frozen=True, kw_only=True):
    """The limits of a reader. It never keeps more of an unfinished frame than these together."""

    headers: int = 128
    """Header lines of a frame."""
    line: int = 8 * 1024
    """Bytes of a header line."""
    head: int = 64 * 1024
    """Bytes of the command and all header lines."""
    body: int = 256 * 1024
    """Bytes of the body."""


# The versions of STOMP: a table of their differences, so that no code checks for a version by its name.


class Version(Struct, frozen=True, eq=False):
    """The form of frames in a version."""

    name: str
    """Its name in `accept-version` and `version`."""
    has_crlf: bool
    """Whether a line may end with CR LF; otherwise a CR is an ordinary character."""
    escapes: Mapping[str, str]
    """The escapes for characters of headers that would end a line or a name. Empty: they cannot be written."""
    is_padded: bool
    """Whether spaces around a header's value are not a part of it."""


_V11_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
_V12_ESCAPES: Final = {**_V11_ESCAPES, "\r": "\\r"}

# fmt: off
# The text of 1.0 pads the headers of its examples ("login: <username>"); 1.1 and 1.2 say that nobody may.
V10: Final = Version("1.0", has_crlf=False, escapes=MappingProxyType({}),           is_padded=True)
V11: Final = Version("1.1", has_crlf=False, escapes=MappingProxyType(_V11_ESCAPES), is_padded=False)
V12: Final = Version("1.2", has_crlf=True,  escapes=MappingProxyType(_V12_ESCAPES), is_padded=False)
# fmt: on

VERSIONS: Final[Mapping[str, Version]] = MappingProxyType(
    {version.name: version for version in (V10, V11, V12)}
)
"""All versions by their names, the oldest first."""

UNAGREED: Final = Version("", has_crlf=True, escapes=MappingProxyType({}), is_padded=False)
"""The form of CONNECT and CONNECTED in every version: without escapes (1.2, "Value Encoding"), and with either line end."""

_NAMES: Final = re.compile(r"[ ]*,[ ]*")


def best_of(accepted: str | None, offered: Iterable[Version]) -> Version | None:
    """Return the highest version that both sides have, of the header `accept-version` and of ours; None if there is none.

    Without the header the client has 1.0 alone (1.2, "Protocol Negotiation").
    """
    names = {V10.name} if accepted is None else set(_NAMES.split(accepted.strip(" ")))
    common = [version for version in offered if version.name in names]
    return max(common, key=lambda version: version.name, default=None)


# The commands of STOMP: which side sends each, whether it has a body, and the headers that each version requires.


@unique
class Side(Enum):
    """The side that sends a command."""

    CLIENT = "client"
    SERVER = "server"


class Command(Struct, frozen=True):
    """A command of one version."""

    needs: tuple[str, ...]
    """Required headers."""
    has_body: bool
    is_escaped: bool
    """Whether its headers are written with escapes, if the version has them."""


class _Row(Struct, frozen=True):
    side: Side
    needs: tuple[tuple[str, ...] | None, ...]
    has_body: bool = False
    is_escaped: bool = True


_C, _S = Side.CLIENT, Side.SERVER
_COLUMNS: Final = (V10, V11, V12)

# fmt: off
COMMANDS: Final[Mapping[str, _Row]] = MappingProxyType({
    # None: the version does not have the command. CONNECT comes before a version is agreed upon; clients leave `host` out,
    # and `accept-version` is missing in 1.0, so that neither is needed here.
    #                     1.0                   1.1                                1.2
    "CONNECT":     _Row(_C, ((),                (),                                (),                                ), is_escaped=False),
    "STOMP":       _Row(_C, ((),                (),                                (),                                ), is_escaped=False),
    "SEND":        _Row(_C, (("destination",),  ("destination",),                  ("destination",),                  ), has_body=True),
    "SUBSCRIBE":   _Row(_C, (("destination",),  ("destination", "id"),             ("destination", "id"),             )),
    "UNSUBSCRIBE": _Row(_C, ((),                ("id",),                           ("id",),                           )), # 1.0: id or destination
    "ACK":         _Row(_C, (("message-id",),   ("message-id", "subscription"),    ("id",),                           )),
    "NACK":        _Row(_C, (None,              ("message-id", "subscription"),    ("id",),                           )),
    # an addition of ours, in all versions: a worker extends a lock
    "TOUCH":       _Row(_C, (("message-id",),   ("message-id", "subscription"),    ("id",),                           )),
    "BEGIN":       _Row(_C, (("transaction",),  ("transaction",),                  ("transaction",),                  )),
    "COMMIT":      _Row(_C, (("transaction",),  ("transaction",),                  ("transaction",),                  )),
    "ABORT":       _Row(_C, (("transaction",),  ("transaction",),                  ("transaction",),                  )),
    "DISCONNECT":  _Row(_C, ((),                (),                                (),                                )),
    "CONNECTED":   _Row(_S, ((),                ("version",),                      ("version",),                      ), is_escaped=False),
    "MESSAGE":     _Row(_S, (("destination", "message-id"), ("destination", "message-id", "subscription"), ("destination", "message-id", "subscription")), has_body=True),
    "RECEIPT":     _Row(_S, (("receipt-id",),   ("receipt-id",),                   ("receipt-id",),                   )),
    "ERROR":       _Row(_S, ((),                (),                                (),                                ), has_body=True),
})
# fmt: on
"""All commands of all versions."""

OPENERS: Final = frozenset({"CONNECT", "STOMP"})
"""The first frames of a client. In 1.2 a server handles both in the same way."""


def commands_of(side: Side, version: Version) -> dict[str, Command]:
    """Return the commands that a side sends in a version, by name. Before a version is agreed upon they are those of 1.2."""
    column = _COLUMNS.index(V12 if version is UNAGREED else version)
    return {
        name: Command(needs, row.has_body, row.is_escaped)
        for name, row in COMMANDS.items()
        if row.side is side and (needs := row.needs[column]) is not None
    }


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

    @property
    def kept(self) -> int:
        """Bytes of memory that these need, with the head of a frame whose body is awaited."""
        self._drop_read()
        head = self._head
        return len(self._unread) + (memory_of(head.headers) if head is not None else 0)

    def receive(self, data: bytes) -> None:
        """Keep received bytes. After a fault they are dropped."""
        if self._is_over:
            return
        self._drop_read()
        self._unread += data

    def end(self) -> None:
        """Drop what is kept, and all that comes."""
        self._is_over = True
        self._unread.clear()
        self._at = 0
        self._head = None

    def _drop_read(self) -> None:
        """Drop the bytes of frames that were read."""
        if self._at:
            del self._unread[: self._at]
            self._scanned = max(0, self._scanned - self._at)
            self._line_at -= self._at
            self._at = 0

    def next_event(self) -> Frame | Fault | None:
        """Return the next frame, or why it cannot be read, which is the last event; None: there is none yet."""
        if self._is_over:
            return None
        try:
            head = self._head or self._read_head()
            return None if head is None else self._read_body(head)
        except FrameError as problem:
            self.end()
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
        after = end + 1
        self._at = self._scanned = after + (unread[after : after + 1] == b"\n")  # many send it
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
    """Return how long the body is, by its header or because the command has none; None: up to the first NUL.

    Clients copy the headers of a MESSAGE into their ACK: without a body its length does not matter.
    """
    if not command.has_body:
        return 0
    given, receipt = headers.get("content-length"), headers.get("receipt")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > _MAX_DIGITS:
        raise FrameError(Cause.MALFORMED, "content-length is not a whole number of bytes", receipt)
    length = int(given)
    if length > limit:
        raise FrameError(Cause.BODY_TOO_LARGE, _too_large(limit), receipt)
    return length


def _too_large(limit: int) -> str:
    return f"a body has at most {limit} bytes"


def _no_nul(head: _Head) -> str:
    if not head.command.has_body:
        return f"{head.name} has no body: behind its headers are an empty line and a NUL"
    return "behind as many bytes of body as content-length has there is no NUL"


# Faults in the bytes of a frame. The side at fault gets an ERROR, and no more is read from it.


@unique
class Cause(StrEnum):
    """The cause; the value is the header `message` of an ERROR."""

    MALFORMED = "malformed frame"
    """A line, an escape, a length or an end that no version, or not this one, allows."""
    UNKNOWN_COMMAND = "unknown command"
    """A command that this side does not send in this version."""
    HEADER_MISSING = "header missing"
    """A missing header that the command requires."""
    TOO_MANY_HEADERS = "too many headers"
    """More headers in a frame than allowed."""
    HEADER_TOO_LONG = "header too long"
    """A line, or all lines of a frame together."""
    BODY_TOO_LARGE = "body too large"
    """More bytes than a payload may have."""


class Fault(Struct, frozen=True):
    """A frame that cannot be read. Nothing after it is read either."""

    cause: Cause
    sentence: str
    """The fault in words, with the limit or the name in question; never a value that was sent."""
    receipt: str | None = None
    """The header `receipt` of the frame, if its headers could be read."""


class FrameError(Exception):
    """Carries the fault that the reader returns; it never leaves the reader."""

    def __init__(self, cause: Cause, sentence: str, receipt: str | None = None) -> None:
        super().__init__(sentence)
        self.fault = Fault(cause, sentence, receipt)


# A frame, as it was read or is to be written.


class Frame(Struct, gc=False):
    """A frame: its command, its headers in their order, and its body.

    Of a repeated header only the first is kept (1.2, "Repeated Header Entries").
    """

    command: str
    headers: dict[str, str]
    body: bytes = b""


_TEXT: Final = {True: (getsizeof(""), 1), False: (getsizeof("\U00010000") - 4, 4)}
"""Bytes of memory that a text needs at most, and that each of its characters needs: of ASCII, and of others."""


def memory_of(headers: Mapping[str, str]) -> int:
    """Return how many bytes of memory headers need at most: a short one needs ten times its length."""
    # joined, because a call for each costs half as much as reading the head
    texts = "".join(headers) + "".join(headers.values())
    beside, width = _TEXT[texts.isascii()]
    return getsizeof(headers) + 2 * len(headers) * beside + width * len(texts)


# Reads the head of a frame: its command and its headers. All lines at once in the usual case, otherwise one after the other.

_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)


class Heads:
    """Reads heads of these commands, in the form of the version and within the bounds."""

    def __init__(
        self, commands: Mapping[str, Command], version: Version, bounds: FrameBounds
    ) -> None:
        self._commands, self._version, self._bounds = commands, version, bounds
        self._longest = max(map(len, commands)) + version.has_crlf
        self._unescaped = {written[1]: character for character, written in version.escapes.items()}
        self._is_simple = not version.is_padded and bool(version.escapes)

    def line_limit(self, number: int) -> int:
        """Return how many bytes a line may have; the first has the command."""
        return self._bounds.line if number else self._longest

    def read(self, head: bytes | bytearray) -> tuple[str, dict[str, str], Command]:
        """Return the command and the headers of a head, without its last line end.

        Raises:
            FrameError: it is invalid.

        """
        quick = self._read_at_once(head)
        if quick is not None:
            return quick
        lines = head.split(b"\n")
        headers = self._read_lines(lines)
        name = _command_of(self._line(lines[0]))
        command = self._commands.get(name)
        if name in OPENERS and "accept-version" not in headers:  # of 1.0
            headers = {one: value.strip(" ") for one, value in headers.items()}
        receipt = headers.get("receipt")
        if command is None:
            raise FrameError(Cause.UNKNOWN_COMMAND, self._known(), receipt)
        for needed in command.needs:
            if needed not in headers:
                raise FrameError(Cause.HEADER_MISSING, f"{name} needs {needed}", receipt)
        return name, headers, command

    def refuse(self, head: bytes | bytearray) -> NoReturn:
        """Raise the reason why an unfinished head that breaks a bound cannot be read: the first wrong line, or all together.

        Raises:
            FrameError: always.

        """
        *lines, last = head.split(b"\n")
        self._read_lines(lines, last)
        raise FrameError(Cause.HEADER_TOO_LONG, f"headers have at most {self._bounds.head} bytes")

    def _read_at_once(self, head: bytes | bytearray) -> tuple[str, dict[str, str], Command] | None:
        """Return a head of the usual form, or None if this one is unusual."""
        if len(head) > self._bounds.line or not self._is_simple:
            return None
        try:
            text = head.decode()
        except UnicodeDecodeError:
            return None
        if "\\" in text or "\r" in text or "\0" in text:
            return None
        name, *lines = text.split("\n")
        command = self._commands.get(name)
        if command is None or len(lines) > self._bounds.headers:
            return None
        try:
            headers = dict([line.split(":", 1) for line in lines])
        except ValueError:
            return None  # a line without a colon
        if len(headers) != len(lines) or "" in headers:
            return None
        for needed in command.needs:
            if needed not in headers:
                return None
        return name, headers, command

    # --- line by line ---------------------------------------------------------------------------

    def _read_lines(
        self, lines: Sequence[bytes | bytearray], unfinished: bytes | bytearray | None = None
    ) -> dict[str, str]:
        """Return the headers of lines; the first line is the command's, and the last may be unfinished."""
        headers: dict[str, str] = {}
        is_raw = False
        for number, line in enumerate(lines):
            self._check(number, line)
            if not number:
                command = self._commands.get(_command_of(self._line(line)))
                is_raw = command is not None and not command.is_escaped
                continue
            name, value = self._header(self._line(line), is_raw=is_raw)
            headers.setdefault(name, value)
        if unfinished is not None:
            self._check(len(lines), unfinished)
        return headers

    def _check(self, number: int, line: bytes | bytearray) -> None:
        """Refuse a line that is too long, or one too many."""
        if len(line) > self.line_limit(number):
            if not number:
                raise FrameError(Cause.UNKNOWN_COMMAND, self._known())
            raise FrameError(
                Cause.HEADER_TOO_LONG, f"a header line has at most {self._bounds.line} bytes"
            )
        if number > self._bounds.headers:
            raise FrameError(
                Cause.TOO_MANY_HEADERS, f"a frame has at most {self._bounds.headers} headers"
            )

    def _line(self, line: bytes | bytearray) -> bytes | bytearray:
        return line.removesuffix(b"\r") if self._version.has_crlf else line

    def _header(self, line: bytes | bytearray, *, is_raw: bool) -> tuple[str, str]:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise _malformed("headers are UTF-8") from None
        name, colon, value = text.partition(
            ":"
        )  # clients that escape nothing have colons in a value
        if not colon or not name:
            raise _malformed("a header line is a name, a colon and a value")
        if "\0" in text or ("\r" in text and self._version.has_crlf):
            raise _malformed("a header line has a NUL or a CR in it")
        if not is_raw and self._version.escapes:
            name, value = self._unescape(name), self._unescape(value)
        return name, value.strip(" ") if self._version.is_padded else value

    def _unescape(self, text: str) -> str:
        return _ESCAPE.sub(self._meant, text) if "\\" in text else text

    def _meant(self, found: re.Match[str]) -> str:
        meant = self._unescaped.get(found[1])
        if meant is None:
            known = ", ".join(f"\\{letter}" for letter in self._unescaped)
            raise _malformed(f"STOMP {self._version.name} knows the escapes {known} and no others")
        return meant

    def _known(self) -> str:
        return f"the commands are {', '.join(self._commands)}"


def _command_of(line: bytes | bytearray) -> str:
    return line.decode("ascii", "replace")


def _malformed(sentence: str) -> FrameError:
    return FrameError(Cause.MALFORMED, sentence)


# Heart-beats: what each side offers and wants, and the agreed intervals (1.1 and 1.2, "Heart-beating").

BEAT: Final = b"\n"
"""The bytes that an idle side sends."""

_FORM: Final = re.compile(r"([0-9]{1,9}),([0-9]{1,9})", re.ASCII)


class HeartBeats(Struct, frozen=True):
    """The values of one side, in milliseconds; 0: none."""

    sends: int = 0
    """The minimum interval at which it can send."""
    wants: int = 0
    """The interval at which it wants to receive."""

    @property
    def shown(self) -> str:
        """The value of the header `heart-beat`."""
        return f"{self.sends},{self.wants}"

    def agreed_with(self, other: HeartBeats) -> HeartBeats:
        """Return the intervals at which this side has to send, and can expect to receive: the larger of both values, 0 if a side has 0."""
        return HeartBeats(_agreed(self.sends, other.wants), _agreed(self.wants, other.sends))


def heart_beats_of(value: str | None) -> HeartBeats | None:
    """Return the values of a header `heart-beat`; a missing one is 0,0. None: it is invalid."""
    if value is None:
        return HeartBeats()
    found = _FORM.fullmatch(value)
    return found and HeartBeats(int(found[1]), int(found[2]))


def _agreed(one: int, other: int) -> int:
    return max(one, other) if one and other else 0


# Writes frames. A header with a character that a version cannot write is left out, and named: none is changed, and no value makes a
# header of its own.

_UNWRITABLE: Final = re.compile("[\n\r\0]")
"""A CR before a line end would be a part of that end; a NUL ends the frame for many readers."""
_PADDED: Final = re.compile(": | \n")
"""Where a reader of 1.0 may cut a value."""
_NEEDED: Final = frozenset({"destination", "message-id", "subscription"})
"""Without these it could not read a MESSAGE at all."""
_ESCAPING: Final[Mapping[str, dict[int, str]]] = {
    version.name: str.maketrans(dict(version.escapes)) for version in VERSIONS.values()
}


def write(frame: Frame, version: Version) -> bytes:
    """Return the bytes of a frame. The writer sets `content-length`, after the other headers, if a body is allowed.

    A line feed follows the frame, as from other brokers: a reader may skip it (1.2, "Augmented BNF"), and that of PHP does not go on
    without it.
    """
    headers, body, row = frame.headers, frame.body, COMMANDS.get(frame.command)
    if "content-length" in headers:
        headers = {name: value for name, value in headers.items() if name != "content-length"}
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    is_padded = version.is_padded and _PADDED.search(lines) is not None
    if is_padded or not _is_plain(lines, len(headers)):
        is_escaped = version.escapes and (row is None or row.is_escaped)
        lines = _written(headers, version if is_escaped else UNAGREED, is_padded=is_padded)
    if body or (row is not None and row.has_body):
        lines = f"{lines}content-length:{len(body)}\n"
    return b"%b%b\0\n" % (f"{frame.command}\n{lines}\n".encode(), body)


def _is_plain(lines: str, count: int) -> bool:
    """Return whether the lines are as they seem: one for each header, with one colon, and without characters to escape."""
    if lines.count(":") != count or lines.count("\n") != count:
        return False
    return not ("\\" in lines or "\r" in lines or "\0" in lines)


def _written(headers: Mapping[str, str], version: Version, *, is_padded: bool) -> str:
    escaping = _ESCAPING.get(version.name, {})
    lines, left_out = [], []
    for name, value in headers.items():
        if name == NOT_CARRIED:
            continue
        line = f"{name.translate(escaping)}:{value.translate(escaping)}"
        is_cut = is_padded and name not in _NEEDED and value != value.strip(" ")
        if is_cut or _UNWRITABLE.search(line) or (":" in name and not version.escapes):
            left_out.append(name)
        else:
            lines.append(f"{line}\n")
    if named := [*filter(None, (headers.get(NOT_CARRIED), listed(left_out)))]:
        lines.append(f"{NOT_CARRIED}:{','.join(named)}\n")
    return "".join(lines)
