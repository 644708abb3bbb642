"""Migrates a service to another store, and shows on a terminal how far that is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pubqueue.stores.copying import copy

if TYPE_CHECKING:
    from types import TracebackType


def migrate(source: str, target: str) -> list[str]:
    """Copy the store at one address into that at another, and return what there is to say of it.

    Raises:
        RefusedError: nothing was done, for there is no store, or the target is another one's.
        StoreError: a store is in use, cannot be reached, or the copy is not what it should be.

    """
    with _Bar() as bar:
        copied = copy(source, target, bar)
    width = max(len(one.table) for one in copied)
    lines = [
        f"{one.table:{width}} {one.rows:>12,} rows, SHA-256 {one.digest[:16]}"
        for one in copied
        if one.rows
    ]
    return [*lines, f"copied and compared: {sum(one.rows for one in copied):,} rows"]


class _Bar:
    """Draws how far a copy is to stderr; nothing where that is no terminal."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(
            *columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True
        )
        self._task = self._progress.add_task("opening", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, rows: int) -> None:
        """Take note of how many rows there are to read."""
        self._progress.update(self._task, total=rows)

    def step(self, what: str, rows: int) -> None:
        """Take note of what is being done, and how many rows have been read for it since."""
        self._progress.update(self._task, description=what, advance=rows)
