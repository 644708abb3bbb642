"""`pubqueue node`: create, change and delete nodes, and manage their affiliations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, stop
from pubqueue.cli.management import output
from pubqueue.cli.management.actions import do
from pubqueue.cli.management.lists import paging, write_list
from pubqueue.cli.management.options import NODE, answering, confirm, run, sure, words
from pubqueue.cli.suggesting import Suggesting
from pubqueue.operations.nodes import AFFILIATE, CONFIGURE, CREATE, DELETE, MEMBERS, ROLES, SETTINGS
from pubqueue.rules.nodeconfig import SETTINGS as OF_NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.cli.management.session import Link
    from pubqueue.operations.model import Value


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
