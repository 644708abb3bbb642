"""`pubqueue restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pubqueue.cli.service import progress
from pubqueue.cli.service.backup import run_and_print, store_options

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@store_options
def restore(file: Path, config: Path | None, store: str | None) -> None:
    """Fill an empty store from a backup.

    FILE was written by `pubqueue backup`. The store may be of the other kind; it must be empty and not in use.
    The backup is checked before anything is written, and each table is read back and compared.
    To restart an interrupted restore, run the same command again; until it is complete, no service can
    use the store.
    """
    run_and_print(lambda address: progress.restore(file, address), config, store)
