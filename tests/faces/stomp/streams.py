"""What a client sends, read whole and in all pieces: what comes of it does not depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.stomp.codec import Fault, Frame, FrameBounds, FrameReader, Side, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SMALL = FrameBounds(headers=4, line=24, head=64, body=16)
"""Bounds that short streams break."""


def events_of(reader: FrameReader) -> Iterator[Frame | Fault]:
    """Yield what the reader has, to the last."""
    while (event := reader.next_event()) is not None:
        yield event


def read(
    pieces: Iterable[bytes],
    version: Version,
    side: Side = Side.CLIENT,
    bounds: FrameBounds = FrameBounds(),  # noqa: B008  # frozen
) -> list[Frame | Fault]:
    """Return the events of a stream that comes in these pieces."""
    reader = FrameReader(side, bounds)
    reader.agree(version)
    found = []
    kept = bounds.head + bounds.body + 8
    for piece in pieces:
        reader.receive(piece)
        found += events_of(reader)
        assert reader.unread <= kept
    return found


def byte_by_byte(stream: bytes) -> list[bytes]:
    """Return the stream in the smallest pieces."""
    return [stream[at : at + 1] for at in range(len(stream))]
