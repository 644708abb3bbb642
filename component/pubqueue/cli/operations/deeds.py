"""`pubqueue pause`, `resume`, `purge`, `redrive`, `release`, `end-subscription`: commands that change something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from pubqueue.app.operations.items import PURGE, REDRIVE, RELEASE
from pubqueue.app.operations.service import END_SUBSCRIPTION
from pubqueue.app.operations.table import OPERATIONS
from pubqueue.cli.operations import show
from pubqueue.cli.operations.options import NODE, answering, confirm, run, sure, words

if TYPE_CHECKING:
    from pubqueue.app.operations.model import Operation
    from pubqueue.cli.operations.link import Link


def do(
    url: str | None,
    operation: Operation,
    given: dict[str, tuple[str, ...]],
    *,
    for_programs: bool,
) -> None:
    """Have it done, and say so."""

    async def work(link: Link) -> None:
        page = await link.perform(operation, given)
        show.done(operation, page, for_programs=for_programs)

    run(url, work)


def _switching(name: str, about: str) -> click.Command:
    """Return a command that turns a setting of a queue on or off."""

    @click.command(name, help=about)
    @click.argument("node", type=NODE)
    @answering
    def switch(url: str | None, node: str, *, as_json: bool) -> None:
        do(url, OPERATIONS[name], words(node=node), for_programs=as_json)

    return switch


# fmt: off
pause: Final = _switching("pause", """\
    Hand out nothing more from a queue.

    What workers hold they may finish, and publishers go on.""")
resume: Final = _switching("resume", "Hand out again from a queue that is paused.")
pause_publishing: Final = _switching("pause-publishing", """\
    Take nothing more in to a queue.

    Publishers are told to wait and to try again later. Workers go on with what is there.""")
resume_publishing: Final = _switching("resume-publishing", "Take in again to a queue.")
# fmt: on


@click.command()
@click.argument("node", type=NODE)
@sure
@answering
def purge(url: str | None, node: str, *, yes: bool, as_json: bool) -> None:
    """Delete all items of a node.

    Those that workers hold go too. You are asked once more, unless you say --yes.
    """
    confirm(PURGE.sure.format(node), yes=yes)
    do(url, PURGE, words(node=node), for_programs=as_json)


@click.command()
@click.argument("node", type=NODE)
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@click.option("--to", type=NODE, help="To this node, instead of where they came from.")
@sure
@answering
def redrive(
    url: str | None, node: str, items: tuple[str, ...], to: str | None, *, yes: bool, as_json: bool
) -> None:
    """Give dead items another life.

    All of a node, or those you name: they go back to where they died, and count as never
    having failed. Of named items all go or none; without names those go that can.
    """
    if not items:
        confirm(f"All dead items of {node} will live again.", yes=yes)

    async def work(link: Link) -> None:
        count = 0
        while True:
            page = await link.perform(REDRIVE, words(node=node, item=items, to=to))
            found = page.rows[0]["count"]
            count += found if isinstance(found, int) else 0
            if not page.more:
                break
        if as_json:
            show.write_json({"done": REDRIVE.name, "count": count, "note": page.note})
        else:
            click.echo(f"{count} dead item{'' if count == 1 else 's'} of {node} live again.")

    run(url, work)


@click.command()
@click.argument("node", type=NODE)
@click.argument("items", nargs=-1, required=True, metavar="ITEM...")
@answering
def release(url: str | None, node: str, items: tuple[str, ...], *, as_json: bool) -> None:
    """Take items away from those that hold them.

    All that you name or none. Others get them at once, and it counts as nobody's failure.
    """
    do(url, RELEASE, words(node=node, item=items), for_programs=as_json)


@click.command("end-subscription")
@click.argument("node", type=NODE)
@click.argument("worker", metavar="JID")
@click.option("--keep-locks", is_flag=True, help="Let it finish what it holds.")
@answering
def end_subscription(
    url: str | None, node: str, worker: str, *, keep_locks: bool, as_json: bool
) -> None:
    """End the subscription of a worker.

    What it holds is taken away, unless you say --keep-locks. It may subscribe again, unless it is made an outcast (`pubqueue node members`).
    """
    given = words(node=node, worker=worker, release=not keep_locks)
    do(url, END_SUBSCRIPTION, given, for_programs=as_json)
