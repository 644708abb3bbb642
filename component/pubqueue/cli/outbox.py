"""`pubqueue outbox`: a relay as a program, and what operators do about rows that were refused."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, Suggesting, plain, stop
from pubqueue.cli.session import SERVICE
from pubqueue_xeps.errors import ConfigurationError, PubqueueError
from pubqueue_xeps.outbox.databases import DRIVERS, source
from pubqueue_xeps.outbox.outbox import TABLE, Outbox
from pubqueue_xeps.outbox.relay import INTERVAL, LEASE, TIMEOUT, Relay
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.sentences import STANDARD_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue_xeps.outbox.databases import Database

T = TypeVar("T")

DATABASE = click.option(
    "--database",
    envvar="DATABASE_URL",
    show_envvar=True,
    required=True,
    metavar="URL",
    help="The database: sqlite:///file.db or postgresql://user@host/name.",
)
NAME = click.option("--table", default=TABLE, show_default=True, help="The table of the outbox.")
NODE = click.option("--node", help="Only rows of this node.")
ID = click.option("--id", "name", help="Only rows of this item id.")


@click.group(cls=Suggesting)
def outbox() -> None:
    """Publish from outboxes in databases."""


@outbox.command()
@DATABASE
@NAME
@click.option("--url", help="Account and service: xmpp://etl@example.org/queue.example.org.")
@SERVICE
@click.option(
    "--interval",
    type=click.FloatRange(0.01),
    default=INTERVAL,
    show_default=True,
    help="Seconds between two looks at a table that has nothing.",
)
@click.option(
    "--lease",
    type=click.FloatRange(0),
    default=LEASE,
    show_default=True,
    help="Seconds after which the rows of a relay that was killed go to another.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=TIMEOUT,
    show_default=True,
    help="Seconds to wait for a confirmation before a row is released; less than the lease.",
)
def relay(
    *,
    database: str,
    table: str,
    url: str | None,
    services: tuple[str, ...],
    interval: float,
    lease: float,
    timeout: float,
) -> None:
    """Run a relay until SIGTERM or SIGINT.

    Any number of processes may run one for the same table. PUBQUEUE_URL is the default of --url; the password is in PUBQUEUE_PASSWORD, or in the file that PUBQUEUE_PASSWORD_FILE
    names. On exit the relay waits up to ten seconds for confirmations, and exits with 0.
    """
    with _in_a_sentence(), STANDARD_ERROR.reporting():
        Relay(
            Outbox(table),
            _url(database),
            Publisher(url=url or None, services=services or None),
            interval=interval,
            lease=lease,
            timeout=timeout,
        ).run_blocking()


@outbox.command("list")
@DATABASE
@NAME
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows to list."
)
def list_refused(database: str, table: str, limit: int) -> None:
    """List refused rows, and count those that wait."""
    found = Outbox(table)
    backlog = _done(database, found.backlog)
    click.echo(f"{backlog.waiting} waiting, {backlog.refused} refused")
    for row in _done(database, lambda connection: found.refused(connection, limit=limit)):
        click.echo(plain(f"{row.node}  {row.id}  {row.reason}".replace("\n", " ")))


@outbox.command()
@DATABASE
@NAME
@NODE
@ID
def retry(database: str, table: str, node: str | None, name: str | None) -> None:
    """Publish refused rows again, after their cause is gone."""
    count = _done(database, lambda found: Outbox(table).retry(found, node=node, id=name))
    click.echo(f"{count} to be published again")


@outbox.command()
@DATABASE
@NAME
@NODE
@ID
@click.confirmation_option("--yes", prompt="Delete refused rows, which are then never published?")
def drop(database: str, table: str, node: str | None, name: str | None) -> None:
    """Delete refused rows, which are then never published."""
    count = _done(database, lambda found: Outbox(table).drop(found, node=node, id=name))
    click.echo(f"{count} deleted")


@outbox.command()
@NAME
@click.option("--dialect", type=click.Choice(["sqlite", "postgresql"]), required=True)
def sql(table: str, dialect: str) -> None:
    """Print the statements that create the table."""
    with _in_a_sentence():
        click.echo(";\n".join(Outbox(table).ddl(dialect)) + ";")


def _url(database: str) -> str:
    if "://" not in database:
        raise ConfigurationError(
            f"{database} is no URL of a database; sqlite:///file.db is one.", argument="database"
        )
    return database


def _done(database: str, work: Callable[[Database], T]) -> T:
    async def run() -> T:
        place = source(_url(database))
        try:
            return await place.run(work)
        finally:
            await place.close()

    with _in_a_sentence():
        return asyncio.run(run())


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """End the command with one sentence for what is not a fault of ours."""
    try:
        yield
    except ConfigurationError as problem:
        stop(ASKED_WRONGLY, str(problem).rstrip("."))
    except PubqueueError as problem:
        stop(FAILED, str(problem).rstrip("."))
    except Exception as problem:
        if type(problem).__module__.partition(".")[0] not in DRIVERS:
            raise
        stop(FAILED, plain(f"the database: {problem}".splitlines()[0]))
