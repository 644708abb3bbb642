"""`pubqueue queues`, `items`, `dead`, `workers`, `connections`, `peek` and `service`: commands that only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from pubqueue.cli.management import output
from pubqueue.cli.management.options import NODE, answering, run, words
from pubqueue.cli.plain_text import plain
from pubqueue.operations.clients import CONNECTIONS
from pubqueue.operations.items import CHOICES, DEAD, ITEMS, PEEK, REASONS
from pubqueue.operations.nodes import QUEUES
from pubqueue.operations.service import OVERVIEW, SERVICE, SORTS, WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.cli.management.session import Link
    from pubqueue.operations.model import Operation

FOR_PEOPLE: Final = 100
"""Rows that people get without `--max`."""


def paging(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of long lists."""
    most = click.option(
        *("--max", "most"),
        type=click.IntRange(1),
        help=f"Maximum rows (default {FOR_PEOPLE}; all with --json).",
    )
    after = click.option("--after", help="Continue after this row, as printed below a list.")
    return most(after(command))


def write_list(
    url: str | None,
    operation: Operation,
    given: dict[str, tuple[str, ...]],
    *,
    most: int | None,
    for_programs: bool,
    head: bool = False,
) -> None:
    """Write a list page by page, and how to continue if there are more rows; with `head` its summary comes first."""
    limit = most if for_programs or most is not None else FOR_PEOPLE

    async def work(link: Link) -> None:
        left, any_rows = limit, False
        async for page in link.pages(operation, given, limit):
            if head and not any_rows and page.rows and not for_programs:
                click.echo(plain(page.note))
            any_rows = any_rows or bool(page.rows)
            output.rows(operation, page, for_programs=for_programs)
            left = None if left is None else left - len(page.rows)
        if for_programs:
            return
        if not any_rows:
            click.echo(page.note)
        elif page.more:
            click.echo(f"There are more: continue with --after {page.through}", err=True)

    run(url, work)


@click.command()
@click.option(
    "--sort",
    type=click.Choice([value for value, _ in SORTS]),
    metavar="COLUMN",
    default="problems",
    show_default=True,
    help=f"Sort order: {', '.join(value for value, _ in SORTS)}.",
)
@click.option("--plain", is_flag=True, help="Plain nodes instead of queues.")
@click.option("--containing", help="Only names that contain this text.")
@paging
@answering
def overview(
    url: str | None,
    sort: str,
    containing: str | None,
    after: str | None,
    most: int | None,
    *,
    plain: bool,
    as_json: bool,
) -> None:
    """Show all queues, problems first.

    Prints the totals, then the queues. Queues with a problem come first: without workers, failing,
    with an item that has waited for more than 15 minutes, with dead items, or paused.
    """
    given = words(sort=sort, plain=plain, containing=containing, after=after)
    write_list(url, OVERVIEW, given, most=most, for_programs=as_json, head=True)


@click.command()
@paging
@answering
def queues(url: str | None, after: str | None, most: int | None, *, as_json: bool) -> None:
    """List the nodes that you manage.

    Shows for each how many items are waiting, delayed, in flight and dead, how long the oldest has waited, and
    the recent completion rate per minute.
    """
    write_list(url, QUEUES, words(after=after), most=most, for_programs=as_json)


@click.command()
@click.argument("node", type=NODE)
@click.option(
    "--state",
    type=click.Choice([value for value, _ in CHOICES]),
    default="all",
    show_default=True,
    help="Only items in this state.",
)
@paging
@answering
def items(
    url: str | None, node: str, state: str, after: str | None, most: int | None, *, as_json: bool
) -> None:
    """List the items of a node.

    Items are in the order in which they were published; dead items, in the order of their deaths.
    """
    write_list(
        url, ITEMS, words(node=node, state=state, after=after), most=most, for_programs=as_json
    )


@click.command()
@click.argument("node", type=NODE)
@click.option("--reason", help="Only items that died for this reason; * stands for any text.")
@click.option("--reasons", is_flag=True, help="Count the dead items by reason instead.")
@paging
@answering
def dead(
    url: str | None,
    node: str,
    reason: str | None,
    after: str | None,
    most: int | None,
    *,
    reasons: bool,
    as_json: bool,
) -> None:
    """List the dead items of a node.

    Lists items that died here and items that arrived here dead, in the order of their deaths, each with its
    last error. With --reasons, lists the reasons instead, the most frequent first. `pubqueue redrive` and
    `pubqueue discard` accept a reason too.
    """
    operation = REASONS if reasons else DEAD
    given = words(node=node, after=after, reason=None if reasons else reason)
    write_list(url, operation, given, most=most, for_programs=as_json)


@click.command()
@click.argument("node", type=NODE)
@paging
@answering
def workers(
    url: str | None, node: str, after: str | None, most: int | None, *, as_json: bool
) -> None:
    """List the workers of a queue and their items."""
    write_list(url, WORKERS, words(node=node, after=after), most=most, for_programs=as_json)


@click.command()
@click.option("--account", metavar="JID", help="Only connections of this account.")
@click.option("--node", type=NODE, help="Only connections subscribed to this node.")
@paging
@answering
def connections(
    url: str | None,
    account: str | None,
    node: str | None,
    after: str | None,
    most: int | None,
    *,
    as_json: bool,
) -> None:
    """List the clients connected to the service.

    Shows for each who it is, from where and since when it is connected, its nodes, and how many items it holds. Each
    stream of gRPC is a line of its own. XMPP clients are connected to their servers, so they are not listed. With several instances, the one that answers lists its own.
    Only administrators may use this command.
    """
    given = words(account=account, subscribed=node, after=after)
    write_list(url, CONNECTIONS, given, most=most, for_programs=as_json)


@click.command()
@click.argument("node", type=NODE)
@click.argument("item")
@answering
def peek(url: str | None, node: str, item: str, *, as_json: bool) -> None:
    """Show an item, its last error and its payload.

    This does not lock or change the item. Up to 48 KiB of the payload are shown: JSON on several lines, text as text,
    and the beginning of bytes in hexadecimal.
    """

    async def work(link: Link) -> None:
        page = await link.perform(PEEK, words(node=node, item=item))
        output.facts(PEEK, page, for_programs=as_json)

    run(url, work)


@click.command()
@answering
def service(url: str | None, *, as_json: bool) -> None:
    """Show version, uptime, store and limits.

    Only administrators may use this command.
    """

    async def work(link: Link) -> None:
        page = await link.perform(SERVICE, {})
        output.facts(SERVICE, page, for_programs=as_json)

    run(url, work)
