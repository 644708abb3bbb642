"""`pubqueue backup`, `restore` and `migrate`: a store is copied as a whole, with a line of progress on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

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

    from pubqueue.stores.copying import Copied, CopyProgress


# Copies a store, shows the progress on a terminal, and prints what was copied.


def copy_and_print(work: Callable[[CopyProgress], Sequence[Copied]], done: str) -> None:
    """Do the work, and print how many rows of each table it has copied; a refusal is one sentence."""
    try:
        with _Bar() as bar:
            copied = work(bar)
    except (ConfigError, RefusedError) as problem:
        stop(ASKED_WRONGLY, problem)
    except StoreError as problem:
        stop(FAILED, problem)
    width = max(len(one.table) for one in copied)
    for one in copied:
        if one.rows:
            click.echo(f"{one.table:{width}} {one.rows:>12,} rows, SHA-256 {one.digest[:16]}")
    if damaged := sum(one.damaged for one in copied):
        click.echo(
            f"damaged before, and copied as they are: {damaged:,} rows (`pubqueue check` names them)"
        )
    click.echo(f"{done} and compared: {sum(one.rows for one in copied):,} rows")


class _Bar(Progress):
    """Draws the progress of a copy on standard error, if that is a terminal."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._copying = self.add_task("opening", total=None)

    def begin(self, rows: int) -> None:
        """Set the number of rows to read."""
        self.update(self._copying, total=rows)

    def step(self, what: str, rows: int) -> None:
        """Set the current step, and add the rows that it has read."""
        self.update(self._copying, description=what, advance=rows)


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


@click.command()
@store_options
def backup(file: Path, config: Path | None, store: str | None) -> None:
    """Write a backup of the store, while the service runs.

    FILE must not exist yet. It contains the whole store, SQLite or PostgreSQL, as it was at one moment;
    each table is read back and compared. The backup does not delay the service. FILE appears once it is complete
    and on disk; a backup that is interrupted leaves no FILE. Only its owner can read it.
    """
    copy_and_print(lambda bar: backups.backup(store_address(config, store), file, bar), "written")


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
    copy_and_print(lambda bar: copy(source, target, bar), "copied")


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
    copy_and_print(lambda bar: backups.restore(file, store_address(config, store), bar), "restored")
