"""`.venv/bin/python -m proof.fuzz.frames`: read a million random streams of STOMP, whole and in pieces, and compare."""

from __future__ import annotations

import sys
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

import click

from pubqueue.faces.stomp.codec import (
    COMMANDS,
    UNAGREED,
    VERSIONS,
    Fault,
    Frame,
    FrameBounds,
    FrameReader,
    Side,
    Version,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BOUNDS: Final = FrameBounds(headers=6, line=40, head=120, body=48)
"""Bounds that random streams break now and then."""
PIECES: Final = (
    *(
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b"\0",
        b":",
        b" ",
        b"\\",
        b"\\n",
        b"\\r",
        b"\\c",
        b"\\\\",
        b"\\t",
    ),
    *(b"destination:a\n", b"id:0\n", b"receipt:7\n", b"transaction:t\n", b"subscription:0\n"),
    *(b"message-id:1\n", b"receipt-id:7\n", b"version:1.2\n", b"accept-version:1.2\n", b"ack:1\n"),
    *(b"content-length:0\n", b"content-length:1\n", b"content-length:3\n", b"content-length:49\n"),
    *(
        b"content-length:-1\n",
        b"content-length:x\n",
        b"x",
        b"\xff",
        b"\xc3\xa4",
        b"\xf0\x9f\x90\x9d",
    ),
    *(b"x" * 20, b"GET / HTTP/1.1\r\n", b"MESSAGE\n", b"\n\n\0", b"\n\r\n\0"),
    *(name.encode() + b"\n" for name in COMMANDS),
    *(name.encode() + b"\ndestination:a\nid:0\n\n" for name in ("SEND", "SUBSCRIBE", "ACK")),
    *(name.encode() + b"\nid:0\n\n\0" for name in ("UNSUBSCRIBE", "TOUCH", "DISCONNECT")),
    b"SUBSCRIBE\ndestination:a\nid:0\n\n\0",
    *(b"SEND\na:1\nb:1\nc:1\nd:1\n", b"SEND\na:1\nb:1\nc:1\nd:1\ne:1\nf:1\ng:1\n"),
    b"SEND\ndestination:" + b"x" * 30,
)
VERDICTS: Final = (*VERSIONS.values(), UNAGREED)


class StreamError(AssertionError):
    """A stream was read in two ways, or kept more than the bounds."""


def streams(random: Random) -> Iterator[tuple[bytes, Version]]:
    """Yield streams without end: of pieces that matter, of whole frames with something changed, and of any bytes."""
    while True:
        shape = random.random()
        if shape < 0.7:
            stream = b"".join(random.choices(PIECES, k=random.randrange(1, 14)))
        elif shape < 0.9:
            stream = _changed(random, b"SEND\ndestination:a\nreceipt:7\n\nbody\0\nACK\nid:1\n\n\0")
        else:
            stream = random.randbytes(random.randrange(60))
        yield stream, random.choice(VERDICTS)


def _changed(random: Random, stream: bytes) -> bytes:
    at, behind = sorted(random.choices(range(len(stream) + 1), k=2))
    middle = random.choice((b"", stream[at:behind] * 2, random.choice(PIECES)))
    return stream[:at] + middle + stream[behind:]


def read(pieces: Sequence[bytes], version: Version, side: Side) -> list[Frame | Fault]:
    """Return what comes of these pieces."""
    reader = FrameReader(side, BOUNDS)
    reader.agree(version)
    found: list[Frame | Fault] = []
    for piece in pieces:
        reader.receive(piece)
        while (event := reader.next_event()) is not None:
            found.append(event)
        if reader.unread > BOUNDS.head + BOUNDS.body + 4:
            raise StreamError(f"{reader.unread} bytes are kept")
    return found


def check(stream: bytes, version: Version, random: Random) -> list[Frame | Fault]:
    """Read a stream whole, byte by byte and in random pieces, and write its frames again; raises StreamError."""
    side = Side.SERVER if random.random() < 0.2 else Side.CLIENT
    found = read([stream], version, side)
    cuts = sorted(random.choices(range(len(stream) + 1), k=3))
    parts = [stream[one:next_] for one, next_ in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    for pieces in ([bytes([byte]) for byte in stream], parts):
        if read(pieces, version, side) != found:
            raise StreamError(f"{version.name} {stream!r} is read otherwise in pieces {pieces!r}")
    frames = [event for event in found if isinstance(event, Frame)]
    if version.escapes and not any(_has_cr(frame) for frame in frames):
        _write_again(frames, version, side)
    return found


def _has_cr(frame: Frame) -> bool:
    """Return whether there is a CR in a header, which 1.1 reads and cannot write."""
    return any("\r" in name + value for name, value in frame.headers.items())


def _write_again(frames: Sequence[Frame], version: Version, side: Side) -> None:
    reader = FrameReader(side)
    reader.agree(version)
    for frame in frames:
        reader.receive(write(frame, version))
        again = reader.next_event()
        if not isinstance(again, Frame) or _plain(again) != _plain(frame):
            raise StreamError(f"{frame!r} was written and read as {again!r}")


def _plain(frame: Frame) -> tuple[str, list[tuple[str, str]], bytes]:
    headers = [(name, value) for name, value in frame.headers.items() if name != "content-length"]
    return frame.command, headers, frame.body


@click.command(context_settings={"show_default": True})
@click.option("--streams", "count", default=1_000_000, type=click.IntRange(1))
@click.option("--seed", default=1, help="The streams follow from it.")
def main(*, count: int, seed: int) -> None:
    """Read random streams; stop at the first that is read in two ways."""
    begun, random = time.monotonic(), Random(seed)
    events: Counter[str] = Counter()
    for number, (stream, version) in zip(range(count), streams(random), strict=False):
        try:
            found = check(stream, version, random)
        except Exception as error:
            click.echo(f"stream {number} of seed {seed}: {error!r}")
            sys.exit(1)
        events.update(one.command if isinstance(one, Frame) else one.cause for one in found)
        events[""] += not found
    click.echo(f"{count:,} streams, each read in one way, in {time.monotonic() - begun:.0f} s")
    for name, times in sorted(events.items()):
        click.echo(f"{times:>10,} {name or 'streams without an event'}")


if __name__ == "__main__":
    main()
