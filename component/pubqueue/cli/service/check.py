"""`pubqueue check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pubqueue import logs
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.service.settings import refused, run, settings_options, with_settings
from pubqueue.config.checks import http_tls
from pubqueue.config.settings import ConfigError
from pubqueue.config.users import locked_out, summary, users_of
from pubqueue.engine.ports import StoreError
from pubqueue.faces.xmpp.stream.component import RefusedByServerError
from pubqueue.operations.model import count
from pubqueue.wiring import checking

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pubqueue.config.settings import Settings


@click.command()
@click.option(
    "--offline",
    is_flag=True,
    help="Check only the configuration; possible while the service runs, before you reload or upgrade it.",
)
@click.option(
    "--prepare",
    is_flag=True,
    help="Create the store first, or migrate it to the schema of this version: as a role that owns it, while no service runs.",
)
@settings_options
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    offline: bool,
    prepare: bool,
    **flags: Any,  # noqa: ANN401  # click's values
) -> None:
    """Check configuration, store and server.

    Reports for each that it is good, or in one sentence what is wrong. It creates and changes nothing: the service creates
    a missing store when it starts. It connects as the component, so run it
    before `serve`, not while the service runs; with --offline it uses neither the store nor a port.
    """
    if offline and prepare:
        stop(ASKED_WRONGLY, "--offline and --prepare contradict each other")
    work = _offline if offline else _prepared if prepare else _online
    ctx.invoke(with_settings(work), **flags)


def _prepared(settings: Settings, again: Callable[[], Settings]) -> None:
    try:
        run(checking.prepare(settings))
    except StoreError as problem:
        stop(FAILED, f"the store cannot be used: {problem}")
    _online(settings, again)


def _offline(settings: Settings, _again: Callable[[], Settings]) -> None:
    _print(settings, checking.check_offline(settings))


def _online(settings: Settings, _again: Callable[[], Settings]) -> None:
    try:
        _print(settings, checking.check(settings))
    except StoreError as problem:
        stop(FAILED, f"the store cannot be used: {problem}")
    except RefusedByServerError as problem:
        stop(FAILED, refused(settings, problem))
    except TimeoutError as problem:
        stop(FAILED, f"{settings.server} does not accept {settings.jid}{_reason(problem)}")


def _print(settings: Settings, lines: Coroutine[Any, Any, list[str]]) -> None:
    """Print the findings line by line."""
    logs.configure("error")
    click.echo(f"configuration: good, {count(len(settings.node), 'declared node')}")
    if users := users_of(settings):
        click.echo(f"users: {summary(users)}")
        for sentence in locked_out(users):
            click.echo(f"users: {sentence}")
    try:
        for line in run(lines):
            click.echo(line)
        if (tls := http_tls(settings)) is not None:
            click.echo(f"http: certificate {tls.summary}")
    except ConfigError as problem:
        stop(ASKED_WRONGLY, problem)


def _reason(problem: TimeoutError) -> str:
    match problem.args:
        case ("conflict",):
            return " (conflict): another component is connected under this name"
        case (str(condition),):
            return f" ({condition})"
        case _:
            return "; is the server running, and is this its component port?"
