"""What a client writes for the judge: a history of its own, line by line, and how the judge is asked about all of them.

An operation is written before it begins and once it has ended (`judge.py` has the format). A line is with the operating
system when the call returns: `kill -9` of the client loses none. Nothing here knows the service.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

JUDGE: Final = Path(__file__).with_name("judge.py")
PART: Final = 8 << 20
"""Bytes of a history that the judge has in memory at a time, about."""
PAGE: Final = 500
"""Items of a read in one line."""

Result = Literal["ok", "fail", "unknown"]


def digest(payload: bytes | str) -> str:
    """Return the digest of a payload, as a client sent or got it."""
    data = payload.encode() if isinstance(payload, str) else payload
    return blake2b(data, digest_size=8).hexdigest()


class History:
    """The history of one client, added to a file. Times are those of `clock`, in seconds; all clients of a run have the same."""

    def __init__(self, path: Path, who: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._who, self.clock = who, clock
        self._life, self._numbers = os.urandom(4).hex(), itertools.count()
        self.since = clock()
        """When the client began: what is pushed to it was never sent earlier."""

    def close(self) -> None:
        """Write nothing more."""
        file, self._file = self._file, -1
        os.close(file)

    def begin(
        self, op: str, queue: str | None = None, item: str | None = None, **more: Any
    ) -> Operation:
        """Write that an operation begins, and return it. One that is never ended is as one without an answer."""
        named = {"queue": queue, "id": item}
        fields = {name: value for name, value in named.items() if value is not None}
        number = f"{self._life}.{next(self._numbers)}"
        operation = Operation(self, {"op": op, **fields, **more, "n": number}, self.clock())
        self.write({**operation.fields, "result": "invoke"}, operation.start, operation.start)
        return operation

    def deliver(self, queue: str, item: str, *, since: float | None = None, **more: Any) -> None:
        """Write that an item has come; `since` is when it was asked for, if nobody pushed it."""
        start = self.since if since is None else since
        self.write({"op": "deliver", "queue": queue, "id": item, **more}, start, self.clock())

    def read(self, queue: str, items: Iterable[tuple[str, str, str]]) -> None:
        """Write what was left at the end: id, digest and state of each item."""
        rows = [list(item) for item in items]
        now = self.clock()
        for at in range(0, max(1, len(rows)), PAGE):
            self.write({"op": "read", "queue": queue, "items": rows[at : at + PAGE]}, now, now)

    def write(self, fields: dict[str, Any], start: float, end: float) -> None:
        """Write a line."""
        line = {"t": [round(start, 6), round(max(start, end), 6)], "who": self._who, **fields}
        os.write(self._file, f"{json.dumps(line, separators=(',', ':'))}\n".encode())


@dataclass(slots=True)
class Operation:
    """An operation that has begun."""

    history: History
    fields: dict[str, Any]
    start: float

    def end(self, result: Result, **more: Any) -> None:
        """Write what has come of it: confirmed, refused, or nobody knows."""
        fields = {**self.fields, **more, "result": result}
        self.history.write(fields, self.start, self.history.clock())


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge has said: its lines, the last of which counts the violations by their kinds."""

    lines: tuple[str, ...]
    is_right: bool

    @property
    def summary(self) -> str:
        """How many violations there are of each kind."""
        return self.lines[-1].removeprefix("violations: ")


class NotJudgedError(Exception):
    """The judge has not judged: what it says."""


def judged(paths: Sequence[Path], most: int = 20) -> Judgement:
    """Have the judge, a process of its own, read these histories.

    Raises:
        NotJudgedError: they are no history.

    """
    size = sum(path.stat().st_size for path in paths)
    words = [f"--parts={size // PART + 1}", f"--most={most}", *map(str, paths)]
    line = [sys.executable, "-I", str(JUDGE), *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise NotJudgedError(done.stderr)
    return Judgement(tuple(done.stdout.splitlines()), done.returncode == 0)


def keep(paths: Iterable[Path], root: Path, folder: Path) -> None:
    """Keep files below `root` in a folder, compressed, for whoever wants to look at what was found: histories, and logs of the same run."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        name = "-".join(path.relative_to(root).parts)
        (folder / f"{name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
