"""`pubqueue schedule`: see what is published at set times, make, change and end it, stop it for a while, and have it published."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pubqueue.app.management.cells import texts
from pubqueue.app.management.schedules import (
    ADD,
    CHANGE,
    DEFINING,
    FIRE,
    MISSED,
    PAUSE,
    REMOVE,
    RESUME,
    SCHEDULES,
    SHOW,
)
from pubqueue.cli.management import output
from pubqueue.cli.management.actions import do
from pubqueue.cli.management.lists import paging, write_list
from pubqueue.cli.management.options import NODE, answering, run, words
from pubqueue.cli.suggesting import Suggesting

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.management.model import Operation
    from pubqueue.cli.management.session import Link

    Command = Callable[..., None]


@click.group(cls=Suggesting)
def schedule() -> None:
    """Publish at set times; for administrators."""


def _defining(*, required: bool) -> Callable[[Command], Command]:
    """Give a command the options of what a schedule is made of."""
    # fmt: off
    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--cron", required=required, metavar="LINE", help="Minute, hour, day of the month, month, day of the week."),
        click.option("--node", type=NODE, required=required, help="Where to publish."),
        click.option("--payload", required=required, help="An XML element in a namespace, or JSON; - reads standard input."),
        click.option("--zone", help="The time zone of the times, as in Europe/Berlin; UTC unless said."),
        click.option("--missed", type=click.Choice([value for value, _ in MISSED]), help="What becomes of missed times; once unless said."),
        click.option("--priority", type=int, help="The priority of its items."),
        click.option("--ttl", metavar="SECONDS", help="How long an item may wait."),
        click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="What workers are told beside the payload; repeatable."),
        click.option("--group", help="The group that its items are of."),
    )
    # fmt: on

    def give(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def _given(
    payload: str | None, **given: str | int | tuple[str, ...] | None
) -> dict[str, tuple[str, ...]]:
    """Return what was given as an operation takes it, the payload from standard input if that is meant."""
    text = sys.stdin.read() if payload == "-" else payload
    return words(payload=text, **given)


@schedule.command("list")
@paging
@answering
def list_(url: str | None, after: str | None, most: int | None, *, as_json: bool) -> None:
    """List the schedules.

    Each with its next and its last time, why its node refused it last, and whether the
    configuration file or a command declares it.
    """
    write_list(url, SCHEDULES, words(after=after), most=most, for_programs=as_json)


@schedule.command("show")
@click.argument("name")
@answering
def show_(url: str | None, name: str, *, as_json: bool) -> None:
    """Show a schedule, and what it publishes.

    Of a payload the first 48 KiB are shown.
    """

    async def work(link: Link) -> None:
        page = await link.perform(SHOW, words(schedule=name))
        output.facts(SHOW, page, for_programs=as_json)

    run(url, work)


@schedule.command()
@click.argument("name")
@_defining(required=True)
@answering
def add(
    url: str | None,
    name: str,
    payload: str,
    *,
    as_json: bool,
    **given: str | int | tuple[str, ...] | None,
) -> None:
    """Make a schedule.

    At each of its times the service publishes one item, with the name and the time as its id. It
    stays until it is removed.
    """
    do(url, ADD, _given(payload, name=name, **given), for_programs=as_json)


@schedule.command()
@click.argument("name")
@_defining(required=False)
@answering
def change(
    url: str | None,
    name: str,
    payload: str | None,
    *,
    as_json: bool,
    **given: str | int | tuple[str, ...] | None,
) -> None:
    """Change a schedule that a command has made.

    What you do not name stays as it is; an empty word takes it away: --ttl '', --group '',
    --header ''. Another cron line or zone counts from now on. Those of the configuration file are
    changed there.
    """
    wanted = _given(payload, **given)

    async def work(link: Link) -> None:
        (row,) = (await link.perform(SHOW, words(schedule=name))).rows
        cells = {column.name: column.cell for column in SHOW.columns}
        stands = {one.name: texts(cells[one.name], row[one.name]) for one in DEFINING}
        page = await link.perform(CHANGE, words(schedule=name) | stands | wanted)
        output.done(CHANGE, page, for_programs=as_json)

    run(url, work)


def _to_one(name: str, operation: Operation, about: str) -> None:
    """Make a command that is given the name of a schedule alone."""

    @schedule.command(name, help=about)
    @click.argument("name")
    @answering
    def to_one(url: str | None, name: str, *, as_json: bool) -> None:
        do(url, operation, words(schedule=name), for_programs=as_json)


# fmt: off
_to_one("remove", REMOVE, """\
    End a schedule that a command has made.

    What it has published stays. Those of the configuration file end when they leave it.""")
_to_one("pause", PAUSE, """\
    Let a schedule publish nothing until it is resumed.

    Those of the configuration file too; nothing is missed meanwhile.""")
_to_one("resume", RESUME, "Let a schedule publish again, from its next time on.")
_to_one("fire", FIRE, """\
    Publish what a schedule says, now.

    It is one item, beside the schedule's times, of which none is settled by it.""")
# fmt: on
