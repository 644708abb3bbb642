"""Measures the codec alone, compared with twenty careless lines that split and join.

It takes the best of many short runs, because other programs make runs longer and never shorter.
"""

from __future__ import annotations

from timeit import repeat
from typing import TYPE_CHECKING, Final

from pubqueue.faces.stomp.codec import V12, Fault, Frame, FrameReader, write

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS: Final = 20
FRAMES: Final = 500
"""In one run; they come in pieces of `PIECE` bytes, as from a socket."""
PIECE: Final = 1 << 16

SEND: Final = Frame("SEND", {"destination": "/queue/jobs", "receipt": "s-12345"})
MESSAGE: Final = {
    "subscription": "0",
    "message-id": "jobs/019abcdef012-5e1f00c0ffee-3039",
    "destination": "/queue/jobs",
    "ack": "12345",
    "item-id": "019abcdef012-5e1f00c0ffee-3039",
    "publisher": "etl@queue.localhost",
    "published": "1780000000000",
    "deadline": "1780000030000",
}


def read_carefully(pieces: list[bytes]) -> int:
    """Read with the codec; return how many frames there are."""
    reader, count = FrameReader(), 0
    reader.agree(V12)
    for piece in pieces:
        reader.receive(piece)
        while (event := reader.next_event()) is not None:
            assert not isinstance(event, Fault), event
            count += 1
    return count


def read_carelessly(pieces: list[bytes]) -> int:
    """Read without escapes, assuming that no body has a NUL."""
    return sum(1 for _ in _careless(pieces))


def _careless(pieces: list[bytes]) -> Iterator[tuple[str, dict[str, str], bytes]]:
    rest = b""
    for piece in pieces:
        *frames, rest = (rest + piece).split(b"\0")
        for frame in frames:
            head, _, body = frame.lstrip(b"\n").partition(b"\n\n")
            command, *lines = head.decode().split("\n")
            yield command, dict([line.split(":", 1) for line in lines]), body


def write_carelessly(command: str, headers: dict[str, str], body: bytes) -> bytes:
    """Write headers without escapes."""
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    return f"{command}\n{lines}content-length:{len(body)}\n\n".encode() + body + b"\0\n"


def frames_per_second(body: bytes) -> dict[str, tuple[float, float]]:
    """Return the frames per second of the codec and of careless lines, for each direction."""
    data = write(Frame(SEND.command, SEND.headers, body), V12) * FRAMES
    pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
    assert read_carefully(pieces) == read_carelessly(pieces) == FRAMES
    frame = Frame("MESSAGE", MESSAGE, body)
    assert write(frame, V12) == write_carelessly("MESSAGE", MESSAGE, body)
    known = {**globals(), "pieces": pieces, "frame": frame, "body": body}
    many = f"for _ in range({FRAMES}): "
    return {
        "SEND in": (
            _rate("read_carefully(pieces)", known),
            _rate("read_carelessly(pieces)", known),
        ),
        "MESSAGE out": (
            _rate(f"{many}write(frame, V12)", known),
            _rate(f"{many}write_carelessly('MESSAGE', MESSAGE, body)", known),
        ),
    }


def _rate(step: str, known: dict[str, object]) -> float:
    return FRAMES / min(repeat(step, number=1, repeat=RUNS, globals=known))
