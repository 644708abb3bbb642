"""`pubqueue registration`: list, disable, enable and end registrations, which are URLs that items are pushed to."""

from __future__ import annotations

import click

from pubqueue.cli.management.actions import do
from pubqueue.cli.management.lists import paging, write_list
from pubqueue.cli.management.options import NODE, answering, words
from pubqueue.cli.suggesting import Suggesting
from pubqueue.operations.clients import DISABLE, ENABLE, END, REGISTRATIONS


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
