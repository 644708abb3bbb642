"""`pubqueue backup`, `restore` and `migrate`: a store is copied as a whole, with a line of progress on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.config.loading import store_address
from pubqueue.engine.ports import StoreError
from pubqueue.faces.checks import ConfigError
from pubqueue.stores import WANTED
from pubqueue.stores.copying import RefusedError, backups, copy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from pubqueue.stores.copying import Copied


# Migrates, backs up and restores a store, and shows the progress on a terminal.


def copy_store(source: str, target: str) -> list[str]:
    """Copy the store at one address to another, and return lines that sum it up.

    Raises:
        RefusedError: nothing was done, because there is no store, or the target belongs to another service.
        StoreError: a store is in use, cannot be reached, or the copy differs.

    """
    with _Bar() as bar:
        return _summary(copy(source, target, bar), "copied and compared")


def write_backup(store: str, file: Path) -> list[str]:
    """Write a backup of the store at an address, which may be in use, and return lines that sum it up.

    Raises:
        RefusedError: nothing was done, because there is no store, or the file exists already.
        StoreError: the store or the file cannot be used, or the backup differs.

    """
    with _Bar() as bar:
        return _summary(backups.backup(store, file, bar), "written and compared")


def fill_store(file: Path, store: str) -> list[str]:
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


# `pubqueue backup`, and the options that it shares with `pubqueue restore`.

P = ParamSpec("P")
R = TypeVar("R")


def store_options(command: Callable[P, R]) -> Callable[P, R]:
    """Give a command the flags for the store, and the file of the backup."""
    file = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
    config = click.option(
        "--config", type=click.Path(path_type=Path), help="The service's TOML file."
    )
    store = click.option("--store", help=f"The address of the store: {WANTED}.")
    return file(config(store(command)))


def run_and_print(work: Callable[[str], list[str]], config: Path | None, store: str | None) -> None:
    """Do this with the store's address, and print the result; a refusal is one sentence."""
    try:
        for line in work(store_address(config, store)):
            click.echo(line)
    except (ConfigError, RefusedError) as problem:
        stop(ASKED_WRONGLY, problem)
    except StoreError as problem:
        stop(FAILED, problem)


@click.command()
@store_options
def backup(file: Path, config: Path | None, store: str | None) -> None:
    """Write a backup of the store, while the service runs.

    FILE must not exist yet. It contains the whole store, SQLite or PostgreSQL, as it was at one moment;
    each table is read back and compared. The backup does not delay the service. FILE appears once it is complete
    and on disk; a backup that is interrupted leaves no FILE. Only its owner can read it.
    """
    run_and_print(lambda address: write_backup(address, file), config, store)


# `pubqueue migrate`.


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def migrate(source: str, target: str) -> None:
    """Copy a stopped service's store into another one.

    FROM and TO are addresses as in --store: sqlite:///path/to/file or
    postgresql://role@host/database. Everything is copied, in any state; each
    table is read back and compared. TO must be empty. To restart an interrupted copy,
    run the same command again; until it is complete, no service can use TO.
    """
    try:
        for line in copy_store(source, target):
            click.echo(line)
    except RefusedError as problem:
        stop(ASKED_WRONGLY, problem)
    except StoreError as problem:
        stop(FAILED, problem)


# `pubqueue restore`.


@click.command()
@store_options
def restore(file: Path, config: Path | None, store: str | None) -> None:
    """Fill an empty store from a backup.

    FILE was written by `pubqueue backup`. The store may be of the other kind; it must be empty and not in use.
    The backup is checked before anything is written, and each table is read back and compared.
    To restart an interrupted restore, run the same command again; until it is complete, no service can
    use the store.
    """
    run_and_print(lambda address: fill_store(file, address), config, store)
