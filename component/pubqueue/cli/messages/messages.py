"""`pubqueue messages`: list and drop assured messages that are held until their senders ask for the delivery."""

from __future__ import annotations

import click

from pubqueue.cli.management.actions import do
from pubqueue.cli.management.lists import paging, write_list
from pubqueue.cli.management.options import answering, words
from pubqueue.cli.suggesting import Suggesting
from pubqueue.operations.clients import DROP, KEPT


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
