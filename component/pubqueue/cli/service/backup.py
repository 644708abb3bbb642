"""`pubqueue backup`, and the options that it shares with `pubqueue restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.service import progress
from pubqueue.config.loading import store_address
from pubqueue.config.settings import ConfigError
from pubqueue.engine.ports import StoreError
from pubqueue.stores import WANTED
from pubqueue.stores.copying import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

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
    run_and_print(lambda address: progress.backup(address, file), config, store)
