"""What all commands that operate a service have in common: where it is, the output format, exit codes, confirmation."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pubqueue.admin.connecting import Where, linked
from pubqueue.admin.session import OperationRefused
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.operations.nodes import QUEUES
from pubqueue_xeps.errors import PubqueueError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pubqueue.admin.session import Link


QUICK: Final = 2.0
"""Seconds that completion may take."""


SERVICE: Final = click.option(
    *("--service", "services"),
    metavar="JID",
    multiple=True,
    help="The service in place of that of the URL (default: PUBQUEUE_SERVICES); repeatable for publishing, working and lists.",
)
"""The option for the services of a command."""


def connecting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where the service is; it gets them as `where`."""

    @wraps(command)
    def called(
        url: str | None,
        config: Path | None,
        services: tuple[str, ...],
        **values: Any,  # noqa: ANN401  # click's
    ) -> None:
        command(where=Where(url=url, config=config, services=services), **values)

    at = click.option(
        "--url",
        metavar="URL",
        help="Your account and the service: xmpp://admin@example.org/queue.example.org, or"
        " https://anna@queue.example.org:9254/ for a user of the service (default: PUBQUEUE_URL)."
        " The password is in PUBQUEUE_PASSWORD, or in the file that PUBQUEUE_PASSWORD_FILE names.",
    )
    here = click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The configuration of the service, on its own host: instead of --url and a password.",
    )
    return at(SERVICE(here(called)))


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for the connection and for JSON."""
    json = click.option("--json", "as_json", is_flag=True, help="Write JSON, one object per line.")
    return json(connecting(command))


def quiet() -> None:
    """Have the library of XMPP log nothing: what it warns of, a command says in a sentence."""
    logging.getLogger("slixmpp").setLevel(logging.CRITICAL)


def run(where: Where, work: Callable[[Link], Coroutine[Any, Any, None]]) -> None:
    """Do the work over a link; a failure is one sentence on standard error, and an exit code."""

    async def linking() -> None:
        async with linked(where) as link:
            await work(link)

    quiet()
    try:
        asyncio.run(linking())
    except OperationRefused as problem:
        stop(ASKED_WRONGLY if problem.wrongly else FAILED, problem)
    except (
        ValueError
    ) as problem:  # of settings, parameters, the server's address, or what XML cannot carry
        stop(ASKED_WRONGLY, problem)
    except PubqueueError as problem:
        stop(FAILED, problem)


def each_of(where: Where) -> list[Where]:
    """Return the same for each of several services; a list that cannot be used ends the command."""
    try:
        return where.each()
    except ValueError as problem:
        stop(ASKED_WRONGLY, problem)


def each_service(where: Where, do: Callable[[Where, str], None]) -> None:
    """Do something at each of several services, with its address; at a single one, with an empty text.

    One that fails ends the command with its exit code, after the others.
    """
    places = each_of(where)
    if len(places) == 1:
        do(places[0], "")
        return
    worst = 0
    for place in places:
        try:
            do(place, place.services[0])
        except SystemExit as ended:
            worst = max(worst, ended.code if isinstance(ended.code, int) else FAILED)
    if worst:
        sys.exit(worst)


def confirm(sentence: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal; without a terminal, --yes is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        stop(ASKED_WRONGLY, f"{sentence} Pass --yes to confirm.")
    if not click.confirm(f"{sentence} Continue?", err=True):
        stop(FAILED, "not confirmed; nothing was done")


def sure(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option that confirms in advance."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)


class NodeName(click.ParamType[str]):
    """The name of a node; completed if the service answers quickly."""

    name = "node"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # click's signature
        incomplete: str,
    ) -> list[click.shell_completion.CompletionItem]:
        """Return the first nodes that begin like this; none after any error, because completion cannot show errors."""
        services = ctx.params.get("services") or ()
        where = Where(url=ctx.params.get("url"), config=ctx.params.get("config"), services=services)

        async def names() -> list[str]:
            async with asyncio.timeout(QUICK), linked(where, timeout=QUICK) as link:
                words = {"after": (incomplete[:-1],)} if incomplete else {}
                found = await link.perform(QUEUES, words)
                return [str(row["node"]) for row in found.rows]

        quiet()
        try:
            found = asyncio.run(names())
        except (PubqueueError, ValueError, OSError, TimeoutError):
            return []
        return [
            click.shell_completion.CompletionItem(name)
            for name in found
            if name.startswith(incomplete)
        ]


NODE: Final = NodeName()


def words(**given: str | int | bool | tuple[str, ...] | None) -> dict[str, tuple[str, ...]]:
    """Return what was given as an operation takes it; what is None was not given."""
    return {name: _texts(value) for name, value in given.items() if value not in {None, ()}}


def _texts(value: str | int | bool | tuple[str, ...] | None) -> tuple[str, ...]:  # noqa: FBT001  # a value
    if isinstance(value, tuple):
        return value
    if isinstance(value, bool):
        return ("1" if value else "0",)
    return (str(value),)
