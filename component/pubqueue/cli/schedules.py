"""`pubqueue schedule`: list, show, add, change, remove, pause, resume and fire schedules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pubqueue.cli import output
from pubqueue.cli.exit_codes import Suggesting
from pubqueue.cli.operations import do, paging, write_list
from pubqueue.cli.session import NODE, answering, run, words
from pubqueue.operations.model import texts
from pubqueue.operations.schedules import (
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.cli.session import Link
    from pubqueue.operations.model import Operation

    Command = Callable[..., None]


@click.group(cls=Suggesting)
def schedule() -> None:
    """Publish items at set times; for administrators."""


def _defining(*, required: bool) -> Callable[[Command], Command]:
    """Give a command the options that define a schedule."""
    # fmt: off
    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--cron", required=required, metavar="LINE", help="Minute, hour, day of the month, month, day of the week."),
        click.option("--node", type=NODE, required=required, help="The node to publish to."),
        click.option("--payload", required=required, help="An XML element in a namespace, or JSON; - reads standard input."),
        click.option("--zone", help="The time zone of the times, such as Europe/Berlin (default: UTC)."),
        click.option("--missed", type=click.Choice([value for value, _ in MISSED]), help="What happens to missed times (default: once)."),
        click.option("--priority", type=int, help="The priority of the items."),
        click.option("--ttl", metavar="SECONDS", help="How long an item may wait."),
        click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header, delivered with the payload; repeatable."),
        click.option("--group", help="The group of the items."),
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
    """Return the options as an operation takes them; a payload of - is read from standard input."""
    text = sys.stdin.read() if payload == "-" else payload
    return words(payload=text, **given)


@schedule.command("list")
@paging
@answering
def list_(url: str | None, after: str | None, most: int | None, *, as_json: bool) -> None:
    """List the schedules.

    Shows for each its next and its last time, why its node last refused an item, and whether the
    configuration file or a command defines it.
    """
    write_list(url, SCHEDULES, words(after=after), most=most, for_programs=as_json)


@schedule.command("show")
@click.argument("name")
@answering
def show_(url: str | None, name: str, *, as_json: bool) -> None:
    """Show a schedule, and what it publishes.

    Up to 48 KiB of the payload are shown.
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
    """Create a schedule.

    At each of its times the service publishes one item, whose id is the schedule's name and the time. The schedule
    stays until you remove it.
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
    """Change a schedule that a command has created.

    Options that you leave out stay as they are; an empty value removes them: --ttl '', --group '',
    --header ''. A new cron line or zone applies from now on. Schedules of the configuration file are
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
    """Make a command that takes only the name of a schedule."""

    @schedule.command(name, help=about)
    @click.argument("name")
    @answering
    def to_one(url: str | None, name: str, *, as_json: bool) -> None:
        do(url, operation, words(schedule=name), for_programs=as_json)


# fmt: off
_to_one("remove", REMOVE, """\
    Remove a schedule that a command has created.

    The items that it has published stay. To remove a schedule of the configuration file, delete it there.""")
_to_one("pause", PAUSE, """\
    Pause a schedule until you resume it.

    This works for schedules of the configuration file too. Times during the pause do not count as missed.""")
_to_one("resume", RESUME, "Resume a paused schedule, from its next time on.")
_to_one("fire", FIRE, """\
    Publish a schedule's item now.

    This is one additional item; the schedule's own times do not change.""")
# fmt: on
