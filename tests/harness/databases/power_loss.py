"""What a disk may contain after a power failure, given the writes to it and the syncs.

Synced data is there. Of other data any part may be there: none, all, a beginning, single writes out of
the middle, half of a write. A removed file is removed at once, because file systems keep the order of
such changes; images are taken before it as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.databases.recording_vfs import Confirmed, Delete, Event, Sync, Truncate, Write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from random import Random

Change = Write | Truncate
Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Image:
    """The files as found when the power is back; how many batches had been confirmed by then."""

    confirmed: int
    what: str
    files: Mapping[str, bytes]

    def __str__(self) -> str:
        return f"{self.what}, {self.confirmed} batches confirmed"

    def unpack(self, folder: Path) -> None:
        """Put the files into a new folder."""
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def images(events: Sequence[Event], random: Random) -> Iterator[Image]:
    """Return images for every moment at which data was waiting to be synced, and for the end."""
    synced: Files = {}
    waiting: list[Change] = []
    confirmed = 0
    for number, event in enumerate([*events, Sync("the end")]):
        match event:
            case Confirmed(batches=batches):
                confirmed = batches
            case Write() | Truncate():
                waiting.append(event)
            case Sync() | Delete():
                for what, part in _parts(waiting, random):
                    yield Image(confirmed, f"event {number}: {what}", _apply(synced, part))
                done = [change for change in waiting if change.file == event.file]
                waiting = [change for change in waiting if change.file != event.file]
                synced = _apply(synced, done)
                if isinstance(event, Delete):
                    synced.pop(event.file, None)


def _parts(waiting: list[Change], random: Random) -> Iterator[tuple[str, list[Change]]]:
    """Return what may have reached the disk of the changes that wait for a sync."""
    yield "nothing that was not synced", []
    for count, change in enumerate(waiting):
        yield f"{count + 1} changes of {len(waiting)}", waiting[: count + 1]
        if isinstance(change, Write):
            cut = random.randrange(len(change.data))
            torn = Write(change.file, change.offset, change.data[:cut])
            yield f"{count} changes and {cut} bytes of the next", [*waiting[:count], torn]
    if len(waiting) > 1:
        yield "all but the first", waiting[1:]
        yield "any of them", [change for change in waiting if random.random() < 0.5]


def _apply(files: Files, changes: Sequence[Change]) -> Files:
    changed = {change.file: bytearray(files.get(change.file, b"")) for change in changes}
    for change in changes:
        content = changed[change.file]
        match change:
            case Write(offset=offset, data=data):
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
            case Truncate(size=size):
                del content[size:]
                content.extend(bytes(size - len(content)))
    return files | {name: bytes(content) for name, content in changed.items()}
