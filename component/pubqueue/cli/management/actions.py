"""`pubqueue pause`, `resume`, `purge`, `cancel`, `redrive`, `discard`, `release`, `end-subscription`, `end-connection`: commands that change something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from pubqueue.cli.exit_codes import FAILED
from pubqueue.cli.management import output
from pubqueue.cli.management.options import NODE, answering, confirm, run, sure, words
from pubqueue.cli.plain_text import plain
from pubqueue.engine.table import MAX_NAMED
from pubqueue.model.decision import Cancelled
from pubqueue.model.entities import ItemId, NodeName
from pubqueue.operations.clients import END_CONNECTION
from pubqueue.operations.items import CANCEL, DISCARD, PURGE, REDRIVE, RELEASE
from pubqueue.operations.model import Given
from pubqueue.operations.service import END_SUBSCRIPTION
from pubqueue.operations.table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.cli.management.session import Link
    from pubqueue.operations.model import Operation


def do(
    url: str | None,
    operation: Operation,
    given: dict[str, tuple[str, ...]],
    *,
    for_programs: bool,
) -> None:
    """Perform an operation, and print its result."""

    async def work(link: Link) -> None:
        page = await link.perform(operation, given)
        output.done(operation, page, for_programs=for_programs)

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
    Stop delivering items of a queue.

    Workers may finish the items that they hold, and publishers may continue.""")
resume: Final = _switching("resume", "Deliver items of a paused queue again.")
pause_publishing: Final = _switching("pause-publishing", """\
    Stop accepting publishes to a queue.

    Publishes are refused for now, and publishers retry later. Workers continue with the existing items.""")
resume_publishing: Final = _switching("resume-publishing", "Accept publishes to a queue again.")
# fmt: on


@click.command()
@click.argument("node", type=NODE)
@sure
@answering
def purge(url: str | None, node: str, *, yes: bool, as_json: bool) -> None:
    """Delete all items of a node.

    This includes items that workers hold. You have to confirm, unless you pass --yes.
    """
    confirm(PURGE.sure.format(node), yes=yes)
    do(url, PURGE, words(node=node), for_programs=as_json)


REASON: Final = click.option(
    "--reason",
    help="Only items that died for this reason, as `pubqueue dead --reasons` shows it; * stands for any text.",
)


@click.command()
@click.argument("node", type=NODE)
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@REASON
@click.option("--to", type=NODE, help="Requeue them to this node, not to the node where they died.")
@sure
@answering
def redrive(
    url: str | None,
    node: str,
    items: tuple[str, ...],
    reason: str | None,
    to: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Requeue dead items.

    Requeues all dead items of a node, those that died for a reason, or those you name. They return to the
    node where they died, and their count of failures starts at zero. Named items are requeued all or none; without names,
    each item that can be requeued is.
    """
    if not items:
        confirm(f"All dead items of {node}{_of(reason)} will be requeued.", yes=yes)
    given = words(node=node, item=items, reason=reason, to=to)

    async def work(link: Link) -> None:
        count = (await _to_the_end(link, REDRIVE, given))["count"]
        if as_json:
            note = f"{count} dead items of {node} requeued."
            output.write_json({"done": REDRIVE.name, "count": count, "note": note})
        else:
            click.echo(f"{count} dead item{'' if count == 1 else 's'} of {node} requeued.")

    run(url, work)


@click.command()
@click.argument("node", type=NODE)
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@REASON
@sure
@answering
def discard(
    url: str | None,
    node: str,
    items: tuple[str, ...],
    reason: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete dead items.

    Deletes all dead items of a node, those that died for a reason, or those you name. You have to confirm, unless you pass --yes.
    Exits with 1 if an item that you name is not dead.
    """
    which = f"{len(items)} named dead items" if items else "All dead items"
    confirm(f"{which} of {node}{_of(reason)} will be deleted.", yes=yes)
    _take_out(url, DISCARD, node, items, reason, as_json=as_json)


@click.command()
@click.argument("node", type=NODE)
@click.argument("items", nargs=-1, required=True, metavar="ITEM...")
@answering
def cancel(url: str | None, node: str, items: tuple[str, ...], *, as_json: bool) -> None:
    """Remove items from a queue before they are done.

    An item may be waiting, delayed, dead or in flight; the worker of an item in flight is notified. A publisher may
    cancel its own items, an owner all items. Exits with 1 if an item was not found; it may be done already.
    """
    _take_out(url, CANCEL, node, items, None, as_json=as_json)


def _of(reason: str | None) -> str:
    return f" that died of {reason!r}" if reason else ""


def _take_out(
    url: str | None,
    operation: Operation,
    node: str,
    items: tuple[str, ...],
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    """Remove any number of items; print how many were removed, and which were not found."""
    parts = [items[at : at + MAX_NAMED] for at in range(0, len(items), MAX_NAMED)] or [()]
    missing: list[str] = []

    async def work(link: Link) -> None:
        sums = {"count": 0, "in_flight": 0}
        for part in parts:
            given = words(node=node, item=tuple(dict.fromkeys(part)), reason=reason)
            found = await _to_the_end(link, operation, given)
            sums = {name: sums[name] + found[name] for name in sums}
            missing.extend(found["missing"])
        reply = Cancelled(
            NodeName(node), sums["count"], sums["in_flight"], tuple(map(ItemId, missing))
        )
        answer = operation.answer(reply, Given())
        if as_json:
            result = {"done": operation.name, **sums, "missing": missing, "note": answer.note}
            output.write_json(result)
        else:
            click.echo(plain(answer.note))

    run(url, work)
    if missing:
        raise SystemExit(FAILED)


async def _to_the_end(
    link: Link, operation: Operation, given: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Perform an operation part by part, and return its row with the sums of all parts."""
    words_now = dict(given)
    found: dict[str, Any] = {"count": 0, "in_flight": 0, "missing": ()}
    while True:
        page = await link.perform(operation, words_now)
        (row,) = page.rows
        found = {name: value + (row.get(name) or type(value)()) for name, value in found.items()}
        if not page.more:
            return found
        if page.through:
            words_now["after"] = (page.through,)


@click.command()
@click.argument("node", type=NODE)
@click.argument("items", nargs=-1, required=True, metavar="ITEM...")
@answering
def release(url: str | None, node: str, items: tuple[str, ...], *, as_json: bool) -> None:
    """Take items away from the workers that hold them.

    Releases all items that you name, or none. Other workers can get them at once, and no failure is counted.
    """
    do(url, RELEASE, words(node=node, item=items), for_programs=as_json)


@click.command("end-subscription")
@click.argument("node", type=NODE)
@click.argument("worker", metavar="JID")
@click.option("--keep-locks", is_flag=True, help="Let the worker finish the items that it holds.")
@answering
def end_subscription(
    url: str | None, node: str, worker: str, *, keep_locks: bool, as_json: bool
) -> None:
    """End the subscription of a worker.

    The items that it holds are released, unless you pass --keep-locks. The worker may subscribe again, unless you make it an outcast (`pubqueue node members`).
    """
    given = words(node=node, worker=worker, release=not keep_locks)
    do(url, END_SUBSCRIPTION, given, for_programs=as_json)


@click.command("end-connection")
@click.argument("connection")
@answering
def end_connection(url: str | None, connection: str, *, as_json: bool) -> None:
    """End the connection of a client.

    Name it as `pubqueue connections` does. The items that it holds are released, and no failure is counted. The client may
    connect again, unless you remove its user. Only administrators may use this command.
    """
    do(url, END_CONNECTION, words(connection=connection), for_programs=as_json)
