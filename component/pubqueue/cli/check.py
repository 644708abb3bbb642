"""`pubqueue check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pubqueue import logs, wiring
from pubqueue.app.ports import StoreError
from pubqueue.cli.ending import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.settings import refused, run, settings_options, with_settings
from pubqueue.config import ConfigError
from pubqueue.faces.xmpp.component import RefusedByServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.config import Settings


@click.command()
@settings_options
@with_settings
def check(settings: Settings, _again: Callable[[], Settings]) -> None:
    """Check configuration, store and server.

    Says of each whether it is good, or in one sentence what is wrong. Connects as the component, so
    it is for before `serve`, not beside it.
    """
    logs.configure("error")
    click.echo(f"configuration: good, {len(settings.node)} declared nodes")
    try:
        for line in run(wiring.check(settings)):
            click.echo(line)
    except ConfigError as problem:
        stop(ASKED_WRONGLY, problem)
    except StoreError as problem:
        stop(FAILED, f"the store cannot be used: {problem}")
    except RefusedByServerError as problem:
        stop(FAILED, refused(settings, problem))
    except TimeoutError as problem:
        stop(FAILED, f"{settings.server} does not accept {settings.jid}{_reason(problem)}")


def _reason(problem: TimeoutError) -> str:
    match problem.args:
        case ("conflict",):
            return " (conflict): another component is connected under this name"
        case (str(condition),):
            return f" ({condition})"
        case _:
            return "; is the server running, and is this its component port?"
