"""Reads the head of a frame: its command and its headers. All lines at once in the usual case, otherwise one after the other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

from pubqueue.faces.stomp.codec.commands import OPENERS
from pubqueue.faces.stomp.codec.faults import Cause, FrameError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.faces.stomp.codec.bounds import FrameBounds
    from pubqueue.faces.stomp.codec.commands import Command
    from pubqueue.faces.stomp.codec.versions import Version

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
            headers = dict([line.split(":") for line in lines])
        except ValueError:
            return None  # none or several colons in a line
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
        name, colon, value = text.partition(":")
        if not colon or not name:
            raise _malformed("a header line is a name, a colon and a value")
        if "\0" in text or ("\r" in text and self._version.has_crlf):
            raise _malformed("a header line has a NUL or a CR in it")
        if not is_raw and self._version.escapes:
            if ":" in value:
                raise _malformed("a colon within a header is written \\c")
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
