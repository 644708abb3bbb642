"""The commands that manage queues: each asks the service for one operation and prints the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from pubqueue.cli import output
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, Suggesting, stop
from pubqueue.cli.plain_text import plain
from pubqueue.cli.session import NODE, answering, confirm, run, sure, words
from pubqueue.model.decision import Cancelled
from pubqueue.model.entities import ItemId, NodeName
from pubqueue.operations.clients import (
    CONNECTIONS,
    DISABLE,
    DROP,
    ENABLE,
    END,
    END_CONNECTION,
    KEPT,
    REGISTRATIONS,
)
from pubqueue.operations.items import (
    CANCEL,
    CHOICES,
    DEAD,
    DISCARD,
    ITEMS,
    PEEK,
    PURGE,
    REASONS,
    REDRIVE,
    RELEASE,
)
from pubqueue.operations.model import Given
from pubqueue.operations.nodes import (
    AFFILIATE,
    CONFIGURE,
    CREATE,
    DELETE,
    MEMBERS,
    QUEUES,
    ROLES,
    SETTINGS,
)
from pubqueue.operations.service import END_SUBSCRIPTION, OVERVIEW, SERVICE, SORTS, WORKERS
from pubqueue.operations.table import OPERATIONS
from pubqueue.rules.nodeconfig import SETTINGS as OF_NODES
from pubqueue.rules.validity import MAX_NAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.cli.session import Link
    from pubqueue.operations.model import Operation, Value


# `pubqueue pause`, `resume`, `purge`, `cancel`, `redrive`, `discard`, `release`, `end-subscription`, `end-connection`: commands that change something.


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


# `pubqueue queues`, `items`, `dead`, `workers`, `connections`, `peek` and `service`: commands that only read.

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


# `pubqueue node`: create, change and delete nodes, and manage their affiliations.


@click.group(cls=Suggesting)
def node() -> None:
    """Manage nodes, their settings and affiliations."""


@node.command()
@click.argument("name", metavar="NODE")
@click.argument("settings", nargs=-1, metavar="[SETTING=VALUE]...")
@click.option(
    "--plain",
    is_flag=True,
    help="Create a plain node, which notifies its subscribers, instead of a queue.",
)
@answering
def create(
    url: str | None, name: str, settings: tuple[str, ...], *, plain: bool, as_json: bool
) -> None:
    """Create a node that you own.

    The node is a queue, unless you pass --plain. Settings are the fields of the node configuration form, with or without the part before the #:
    lock_timeout=60 max_failures=5. `pubqueue node settings` shows them all.
    """
    kind = (f"queueing={0 if plain else 1}",)
    do(url, CREATE, words(name=name, settings=kind + settings), for_programs=as_json)


@node.command("set")
@click.argument("node", type=NODE)
@click.argument("settings", nargs=-1, required=True, metavar="SETTING=VALUE...")
@answering
def set_(url: str | None, node: str, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Change settings of a node.

    Settings that you do not name stay as they are.
    """
    do(url, CONFIGURE, words(node=node, settings=settings), for_programs=as_json)


@node.command()
@click.argument("node", type=NODE)
@answering
def settings(url: str | None, node: str, *, as_json: bool) -> None:
    """Show all settings of a node."""

    async def work(link: Link) -> None:
        page = await link.perform(SETTINGS, words(node=node))
        if as_json:
            output.write_json({str(row["setting"]): _typed(row) for row in page.rows})
        else:
            output.rows(SETTINGS, page, for_programs=False)

    run(url, work)


def _typed(row: Mapping[str, Value]) -> object:
    """Return the value of a setting by its type: a number, a truth value, null for none, otherwise text.

    Settings of a later version of the service are text.
    """
    name, text = str(row["setting"]), str(row["value"] or "")
    known = OF_NODES.get(name)
    if not text:
        return None
    return text if known is None else known.read(text)


@node.command()
@click.argument("node", type=NODE)
@sure
@answering
def delete(url: str | None, node: str, *, yes: bool, as_json: bool) -> None:
    """Delete a node and everything in it."""
    confirm(DELETE.sure.format(node), yes=yes)
    do(url, DELETE, words(node=node), for_programs=as_json)


@node.command()
@click.argument("node", type=NODE)
@click.option(
    *("--set", "changes"),
    multiple=True,
    metavar="JID=AFFILIATION",
    help=f"Set the affiliation of an account: {', '.join(dict(ROLES))}; repeatable.",
)
@paging
@answering
def members(
    url: str | None,
    node: str,
    changes: tuple[str, ...],
    after: str | None,
    most: int | None,
    *,
    as_json: bool,
) -> None:
    """List or change the affiliations of a node.

    An owner manages the node, a publisher may publish, a member may subscribe, an outcast may do nothing.
    """
    if not changes:
        write_list(url, MEMBERS, words(node=node, after=after), most=most, for_programs=as_json)
        return
    wanted = [change.rpartition("=") for change in changes]
    for jid, _, role in wanted:
        if not jid or role not in dict(ROLES):
            stop(ASKED_WRONGLY, f"--set takes JID=AFFILIATION, one of {', '.join(dict(ROLES))}")

    async def work(link: Link) -> None:
        for jid, _, role in wanted:
            given = words(node=node, jid=jid, affiliation=role)
            page = await link.perform(AFFILIATE, given)
            output.done(AFFILIATE, page, for_programs=as_json)

    run(url, work)


# `pubqueue messages`: list and drop assured messages that are held until their senders ask for the delivery.


@click.group(cls=Suggesting)
def messages() -> None:
    """Look after the assured messages that are held."""


@messages.command("list")
@paging
@answering
def list_messages(url: str | None, after: str | None, most: int | None, *, as_json: bool) -> None:
    """List the accounts of which messages are held.

    Shows for each how many messages and bytes are held, and until when the first of them is. Only administrators may use this command.
    """
    write_list(url, KEPT, words(after=after), most=most, for_programs=as_json)


@messages.command()
@click.argument("account")
@answering
def drop(url: str | None, account: str, *, as_json: bool) -> None:
    """Drop the messages that are held of an account.

    They were received and not delivered. Their sender gets an error when it asks for the delivery. Only administrators may use this
    command.
    """
    do(url, DROP, words(account=account), for_programs=as_json)


# `pubqueue registration`: list, disable, enable and end registrations, which are URLs that items are pushed to.


@click.group(cls=Suggesting)
def registration() -> None:
    """Look after the URLs that items are pushed to."""


@registration.command("list")
@click.option("--node", type=NODE, help="Only registrations of this node.")
@paging
@answering
def list_registrations(
    url: str | None, node: str | None, after: str | None, most: int | None, *, as_json: bool
) -> None:
    """List registrations.

    Shows for each its node, its account, whether it is active, and how many pushes in a row have failed. Owners see those of their nodes
    (--node), others their own, and administrators all.
    """
    given = words(node=node, after=after)
    write_list(url, REGISTRATIONS, given, most=most, for_programs=as_json)


@registration.command()
@click.argument("node", type=NODE)
@click.argument("registration")
@answering
def disable(url: str | None, node: str, registration: str, *, as_json: bool) -> None:
    """Stop pushing to the URL, until the registration is enabled again."""
    do(url, DISABLE, words(node=node, registration=registration), for_programs=as_json)


@registration.command()
@click.argument("node", type=NODE)
@click.argument("registration")
@answering
def enable(url: str | None, node: str, registration: str, *, as_json: bool) -> None:
    """Push to the URL again, after the registration was disabled."""
    do(url, ENABLE, words(node=node, registration=registration), for_programs=as_json)


@registration.command()
@click.argument("node", type=NODE)
@click.argument("registration")
@answering
def end(url: str | None, node: str, registration: str, *, as_json: bool) -> None:
    """End a registration. Its account may register again."""
    do(url, END, words(node=node, registration=registration), for_programs=as_json)
