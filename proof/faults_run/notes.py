"""What workers note, each in a file of its own: it outlives them, for the machine is not what dies.

A line is a word, an item, the lock's token, the attempt, the time. `given` is noted when the item comes, `result`
when its work is done, `done` when the queue has confirmed the retract, `late` when it has refused it, `gone` when nobody can know.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from pubqueue_xeps.item import Item

Word = Literal["given", "result", "done", "late", "gone"]


class Pen:
    """Writes notes; each is in the file when the call returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, word: Word, item: Item) -> None:
        """Note what has become of an item."""
        line = f"{word} {item.id} {item.token} {item.attempt} {time.monotonic_ns()}\n"
        os.write(self._file, line.encode())


Lock = tuple[int, int]
"""A lock's token, and when the note was made: by the machine's clock, which all processes share."""


@dataclass(slots=True)
class Notes:
    """All notes of all workers so far."""

    folder: Path
    redelivered: int = 0
    late: int = 0
    gone: int = 0
    results: Counter[str] = field(default_factory=Counter)
    done: defaultdict[str, list[Lock]] = field(default_factory=lambda: defaultdict(list))
    given: defaultdict[str, list[Lock]] = field(default_factory=lambda: defaultdict(list))
    _read: Counter[Path] = field(default_factory=Counter)

    def path(self, worker: str) -> Path:
        """Return where a worker writes."""
        return self.folder / f"{worker}.notes"

    def read(self) -> None:
        """Take in what is new."""
        for path in self.folder.glob("*.notes"):
            with path.open("rb") as file:
                file.seek(self._read[path])
                for line in file:
                    if line.endswith(b"\n"):
                        self._read[path] += len(line)
                        self._take(*line.decode().split())

    def _take(self, word: str, item: str, token: str, attempt: str, moment: str) -> None:
        match word:
            case "given":
                self.given[item].append((int(token), int(moment)))
                self.redelivered += int(attempt) > 1
            case "result":
                self.results[item] += 1
            case "done":
                self.done[item].append((int(token), int(moment)))
            case "gone":
                self.gone += 1
            case _:
                self.late += 1

    @property
    def twice(self) -> int:
        """How many items more than one worker was told to have retracted."""
        return sum(len(locks) > 1 for locks in self.done.values())

    @property
    def came_back(self) -> list[str]:
        """Items that were handed out again after their retract was confirmed. Tokens only rise."""
        last = {item: max(locks) for item, locks in self.done.items()}
        return [
            item
            for item, (token, moment) in last.items()
            if any(given > token and when > moment for given, when in self.given[item])
        ]
