"""Migrates, backs up and restores a store, and shows the progress on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pubqueue.stores.copying import backups, copy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from pubqueue.stores.copying import Copied


def migrate(source: str, target: str) -> list[str]:
    """Copy the store at one address to another, and return lines that sum it up.

    Raises:
        RefusedError: nothing was done, because there is no store, or the target belongs to another service.
        StoreError: a store is in use, cannot be reached, or the copy differs.

    """
    with _Bar() as bar:
        return _summary(copy(source, target, bar), "copied and compared")


def backup(store: str, file: Path) -> list[str]:
    """Write a backup of the store at an address, which may be in use, and return lines that sum it up.

    Raises:
        RefusedError: nothing was done, because there is no store, or the file exists already.
        StoreError: the store or the file cannot be used, or the backup differs.

    """
    with _Bar() as bar:
        return _summary(backups.backup(store, file, bar), "written and compared")


def restore(file: Path, store: str) -> list[str]:
    """Fill the store at an address from a backup, and return lines that sum it up.

    Raises:
        RefusedError: nothing was done, because the file is not a backup, or the store is not empty.
        StoreError: the backup is damaged, or the store is in use or cannot be reached.

    """
    with _Bar() as bar:
        return _summary(backups.restore(file, store, bar), "restored and compared")


def _summary(copied: Sequence[Copied], done: str) -> list[str]:
    width = max(len(one.table) for one in copied)
    lines = [
        f"{one.table:{width}} {one.rows:>12,} rows, SHA-256 {one.digest[:16]}"
        for one in copied
        if one.rows
    ]
    return [*lines, f"{done}: {sum(one.rows for one in copied):,} rows"]


class _Bar:
    """Draws the progress of a copy on standard error, if that is a terminal."""

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
        """Set the number of rows to read."""
        self._progress.update(self._task, total=rows)

    def step(self, what: str, rows: int) -> None:
        """Set the current step, and add the rows that it has read."""
        self._progress.update(self._task, description=what, advance=rows)
