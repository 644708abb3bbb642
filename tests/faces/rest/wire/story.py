"""Stories of HTTP: requests and answers as text, as the posts on REST-* Messaging print them.

`>` begins a line that is sent, `<` one that is expected, `#` a comment; what stands between these is part of a body. In a line that is expected,
`{word}` matches anything and keeps it under that name, or has to be what is kept already; a header that is not named may be there. In a line
that is sent it is replaced by what is kept.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

STORIES: Final = sorted(Path(__file__).parent.glob("*.http"))
_NAME: Final = re.compile(r"\{(\w+)\}")
_LENGTH: Final = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)


def blocks(text):
    """Yield the requests and answers: the mark, and the lines."""
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        mark, said = line[:1], line[2:]
        if mark not in {">", "<"}:
            continue
        if not found or found[-1][0] != mark:
            found.append((mark, []))
        found[-1][1].append(said)
    return found


class Story:
    """One connection on which a story is told; `known` are values by their names."""

    def __init__(self, reader, writer, **known):
        self._reader, self._writer = reader, writer
        self.known = known

    async def tell(self, text):
        """Send what is sent, and compare what is answered."""
        for mark, lines in blocks(text):
            if mark == ">":
                await self._send(lines)
            else:
                await self._expect(lines)

    async def _send(self, lines):
        lines = [_NAME.sub(lambda name: self.known[name[1]], line) for line in lines]
        head, _, body = "\r\n".join(lines).partition("\r\n\r\n")
        head = head.rstrip()
        self._is_head = head.startswith("HEAD ")
        whole = f"{head}\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}"
        self._writer.write(whole.encode())
        await self._writer.drain()

    async def _expect(self, lines):
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = (
            await self._reader.readexactly(int(length[1])) if length and not self._is_head else b""
        )
        heard = head.decode().split("\r\n")
        wanted, _, wanted_body = "\n".join(lines).partition("\n\n")
        for line in wanted.split("\n"):
            self._match(line, heard)
        if wanted_body:
            self._match(wanted_body, [body.decode()])

    def _match(self, line, heard):
        pieces = _NAME.split(line)
        pattern = "".join(
            [
                re.escape(piece)
                if not at % 2
                else re.escape(self.known[piece])
                if piece in self.known
                else f"(?P<{piece}>.*?)"
                for at, piece in enumerate(pieces)
            ]
        )
        found = [got for one in heard if (got := re.fullmatch(pattern, one, re.DOTALL))]
        assert found, f"{line!r} is not in {heard}"
        self.known |= found[0].groupdict()


async def tell(text, host, port, **known):
    """Tell a story on a connection of its own."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await Story(reader, writer, **known).tell(text)
    finally:
        writer.close()
