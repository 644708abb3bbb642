"""`pubqueue user`: make and check what users of the configuration log in with."""

from __future__ import annotations

import secrets
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pubqueue.accounts import credentials
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, Suggesting, stop
from pubqueue.config.loading import load
from pubqueue.config.users import users_of
from pubqueue.faces.checks import ConfigError
from pubqueue.model.entities import suggestion

if TYPE_CHECKING:
    from pubqueue.accounts.credentials import User
    from pubqueue.config.settings import Settings


@click.group(cls=Suggesting)
def user() -> None:
    """Make and check passwords and tokens of users."""


@user.command()
@click.option(
    "--generate", is_flag=True, help="Make a password, and print it before its scrypt string."
)
def password(*, generate: bool) -> None:
    """Ask for a password twice, and print its scrypt string.

    The string is the value of `password` in a table `[[user]]`, or the first line of its `password_file`. If
    standard input is not a terminal, the password is its first line. With --generate nothing is asked: a new password is printed with
    its string. It is stored nowhere: give it to the user now.
    """
    if generate:
        made = secrets.token_urlsafe(18)
        click.echo(f"generated  {made}")
        click.echo(f"password   {credentials.make(made).text}")
        return
    try:
        click.echo(credentials.make(_asked("Password", confirm=True)).text)
    except ValueError as problem:
        stop(ASKED_WRONGLY, problem)


@user.command()
def token() -> None:
    """Make a bearer token, and print it with its digest.

    The digest is an entry of `token_sha256` in a table `[[user]]`. The token itself is stored nowhere: give it to the user now.
    """
    made = secrets.token_urlsafe(32)
    click.echo(f"token         {made}")
    click.echo(f"token_sha256  {sha256(made.encode()).hexdigest()}")


@user.command()
@click.argument("name")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The service's configuration file.",
)
@click.option("--token", "by_token", is_flag=True, help="Ask for a token instead of the password.")
def check(name: str, config: Path | None, *, by_token: bool) -> None:
    """Ask for the password of a user, and print whether it is right.

    Exits with 1 if it is wrong. If standard input is not a terminal, the password or token is its first line. A running service
    is not asked: it may not have reloaded its configuration yet.
    """
    settings, found = _configured(name, config)
    asked = _asked("Token" if by_token else "Password", confirm=False)
    what = "token" if by_token else "password"
    if not (_has_token(found, asked) if by_token else _has_password(found, asked)):
        stop(FAILED, f"the {what} of {name} is wrong")
    roles = ", ".join(sorted(found.roles)) or "none"
    click.echo(f"the {what} is right; account {settings.account_of(name)}, roles: {roles}")


def _configured(name: str, config: Path | None) -> tuple[Settings, User]:
    try:
        settings = load(config, {}, with_secret=False)
    except ConfigError as problem:
        stop(ASKED_WRONGLY, problem)
    users = {one.name: one for one in users_of(settings)}
    if name not in users:
        stop(ASKED_WRONGLY, f"there is no user {name!r}{suggestion(name, users)}")
    return settings, users[name]


def _has_password(found: User, asked: str) -> bool:
    return found.password is not None and found.password.matches(asked)


def _has_token(found: User, asked: str) -> bool:
    return sha256(asked.encode("utf-8", "surrogatepass")).hexdigest() in found.tokens


def _asked(what: str, *, confirm: bool) -> str:
    """Ask for a secret, without showing it."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    again = "Again" if confirm else False
    entered: str = click.prompt(what, hide_input=True, confirmation_prompt=again, err=True)
    return entered
