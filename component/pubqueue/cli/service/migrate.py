"""`pubqueue migrate`."""

from __future__ import annotations

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.service import progress
from pubqueue.engine.ports import StoreError
from pubqueue.stores.copying import RefusedError


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
        for line in progress.migrate(source, target):
            click.echo(line)
    except RefusedError as problem:
        stop(ASKED_WRONGLY, problem)
    except StoreError as problem:
        stop(FAILED, problem)
