"""Counts bytes and elements of the six stanzas of an item's life on the wire."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.table import Table

from bench.contestants import running
from bench.load import Load, subscribe
from bench.places import Direct
from bench.wire import BenchError, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.measure import Work

SIX: Final = {
    "publish in": rb"<iq type='set' id='p",
    "publish result": rb"<iq (?=[^>]*result)(?=[^>]*id=.p)",
    "delivery": rb"<message .*<item ",
    "retract in": rb"<iq type='set' id='r",
    "retract result": rb"<iq (?=[^>]*result)(?=[^>]*id=.r)",
    "retract notice": rb"<message .*<retract ",
}
STANZA: Final = re.compile(rb"<(iq|message)\b(?:[^>]*/>|.*?</\1>)")
ELEMENT: Final = re.compile(rb"<[^/!?]")


class Size(NamedTuple):
    """How large a stanza is, with the payload and its elements."""

    bytes: int
    elements: int


async def sizes(contestant: str, work: Work) -> dict[str, Size]:
    """Run one item's life through the contestant, without a server, and count."""
    seen: list[bytes] = []
    with tempfile.TemporaryDirectory(prefix="pubqueue-bench-") as folder:
        async with (
            Direct() as place,
            running(
                contestant,
                place,
                Path(folder),
                publishers=["publisher0"],
                requests=work.requests,
            ),
        ):
            publisher, worker = await place.parties(["publisher0", "worker0"])
            await subscribe(worker, work.requests)
            listen(publisher.stream, seen)
            load = Load(
                [publisher],
                [worker],
                window=1,
                size=work.payload,
                short=work.asks_short(contestant),
            )
            await load.run(1)
            await place.part([publisher, worker])
    return counted(b"".join(seen))


def listen(stream: Stream, seen: list[bytes]) -> None:
    """Record the stream in both directions."""
    write, take = stream.write, stream.data_received

    def written(data: bytes) -> None:
        seen.append(data)
        write(data)

    def taken(data: bytes) -> None:
        seen.append(data)
        take(data)

    stream.write, stream.data_received = written, taken  # type: ignore[method-assign]


def counted(data: bytes) -> dict[str, Size]:
    """Find and count the six stanzas."""
    stanzas = [found[0] for found in STANZA.finditer(data)]
    found = {}
    for name, pattern in SIX.items():
        own = [stanza for stanza in stanzas if re.match(pattern, stanza)]
        if len(own) != 1:
            raise BenchError(f"there should be one {name} among {stanzas}")
        found[name] = Size(len(own[0]), len(ELEMENT.findall(own[0])))
    return found


def size_table(sizes: Mapping[str, Mapping[str, Size]]) -> Table:
    """Show the sizes of the contestants side by side."""
    shown = Table(title="the six stanzas: bytes, and elements")
    shown.add_column("stanza", no_wrap=True)
    for contestant in sizes:
        shown.add_column(contestant, justify="right", no_wrap=True)
    for name in SIX:
        shown.add_row(name, *(_written([own[name]]) for own in sizes.values()))
    shown.add_section()
    shown.add_row("in all", *(_written(list(own.values())) for own in sizes.values()))
    return shown


def _written(sizes: Sequence[Size]) -> str:
    return f"{sum(size.bytes for size in sizes)}, {sum(size.elements for size in sizes)}"
