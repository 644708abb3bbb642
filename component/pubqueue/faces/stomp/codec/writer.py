"""Writes frames. Characters that a version cannot write in a header become a space, so that no value creates a header of its own."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pubqueue.faces.stomp.codec.commands import COMMANDS
from pubqueue.faces.stomp.codec.versions import UNAGREED, VERSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.stomp.codec.frame import Frame
    from pubqueue.faces.stomp.codec.versions import Version

_UNWRITABLE: Final = MappingProxyType({"\n": " ", "\r": " ", "\0": " "})
"""A CR before a line end would be a part of that end; a NUL ends the frame for many readers."""
_RAW: Final = str.maketrans(dict(_UNWRITABLE))
_RAW_NAME: Final = str.maketrans({**_UNWRITABLE, ":": " "})
_ESCAPING: Final[Mapping[str, dict[int, str]]] = {
    version.name: str.maketrans({**_UNWRITABLE, **version.escapes}) for version in VERSIONS.values()
}


def write(frame: Frame, version: Version) -> bytes:
    """Return the bytes of a frame. The writer sets `content-length`, after the other headers, if a body is allowed."""
    headers, body, row = frame.headers, frame.body, COMMANDS.get(frame.command)
    if "content-length" in headers:
        headers = {name: value for name, value in headers.items() if name != "content-length"}
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    if not _is_plain(lines, len(headers)):
        is_escaped = version.escapes and (row is None or row.is_escaped)
        lines = _written(headers, version if is_escaped else UNAGREED)
    if body or (row is not None and row.has_body):
        lines = f"{lines}content-length:{len(body)}\n"
    return b"%b%b\0" % (f"{frame.command}\n{lines}\n".encode(), body)


def _is_plain(lines: str, count: int) -> bool:
    """Return whether the lines are as they seem: one for each header, with one colon, and without characters to escape."""
    if lines.count(":") != count or lines.count("\n") != count:
        return False
    return not ("\\" in lines or "\r" in lines or "\0" in lines)


def _written(headers: Mapping[str, str], version: Version) -> str:
    names = values = _ESCAPING.get(version.name, _RAW)
    if not version.escapes:
        names = _RAW_NAME
    return "".join(
        [f"{name.translate(names)}:{value.translate(values)}\n" for name, value in headers.items()]
    )
