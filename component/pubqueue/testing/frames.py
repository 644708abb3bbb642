"""A stream of XML as a server reads it: cut into its first-level elements, each with its bytes as they came."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from pubqueue.faces.xmpp.stream.expat import ExpatFeeder

if TYPE_CHECKING:
    from collections.abc import Callable

_TAG: Final = re.compile(rb"""(?:[^>'"]|'[^']*'|"[^"]*")*>""")


class Frames:
    """Cuts a stream into its first-level elements, keeping the bytes of each."""

    def __init__(
        self, on_open: Callable[[dict[str, str]], None], on_child: Callable[[str], None]
    ) -> None:
        self._on_open = on_open
        self._on_child = on_child
        self._expat = expat.ParserCreate()
        self._expat_feeder = ExpatFeeder(self._expat)
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._buffer = b""
        self._base = 0
        self._depth = 0
        self._from = 0
        self.closed = False
        """Whether the stream has ended."""

    def feed(self, data: bytes) -> None:
        """Continue to read; call the callbacks for the opening tag of the stream, and for each complete element.

        Raises:
            xml.parsers.expat.ExpatError: this is not XML.

        """
        self._buffer += data
        self._expat_feeder.feed(data)
        if self._depth:
            self._drop(self._expat.CurrentByteIndex if self._depth == 1 else self._from)

    def _start(self, _name: str, attributes: dict[str, str]) -> None:
        if self._depth == 0:
            self._on_open(attributes)
        if self._depth == 1:
            self._from = self._expat.CurrentByteIndex
        self._depth += 1

    def _end(self, _name: str) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.closed = True
        if self._depth == 1:
            self._on_child(self._buffer[self._from - self._base : self._stop()].decode())

    def _stop(self) -> int:
        """Return where the element ends: expat's position is before `</a>`, but after `<a/>`."""
        here = self._expat.CurrentByteIndex - self._base
        opening = _TAG.match(self._buffer, self._from - self._base)
        if opening and opening.end() == here and opening[0].endswith(b"/>"):
            return here
        return self._buffer.index(b">", here) + 1

    def _drop(self, index: int) -> None:
        self._buffer = self._buffer[index - self._base :]
        self._base = index
