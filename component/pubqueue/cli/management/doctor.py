"""`pubqueue doctor`: check the running service, and print what is good, what to look at, and what is bad."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.management import output, remote_checks
from pubqueue.cli.management.options import answering
from pubqueue.cli.management.report import Level, bad, good
from pubqueue.cli.management.session import linked
from pubqueue.cli.plain_text import plain
from pubqueue_xeps.errors import ConfigurationError, PubqueueError

if TYPE_CHECKING:
    from pubqueue.cli.management.report import Finding

COLOURS: Final = {Level.GOOD: "green", Level.LOOK: "yellow", Level.BAD: "red"}


class Visit:
    """Prints findings as they come, and records whether one was bad."""

    def __init__(self, *, for_programs: bool) -> None:
        self._for_programs = for_programs
        self.failed = False

    def show(self, finding: Finding) -> None:
        """Write one line."""
        self.failed = self.failed or finding.level is Level.BAD
        if self._for_programs:
            level = finding.level.name.lower()
            output.write_json({"level": level, "about": finding.about, "says": finding.says})
            return
        word = click.style(f"{finding.level.value:<12}", fg=COLOURS[finding.level])
        click.echo(f"{word}  {finding.about}: {plain(finding.says)}")


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The service's configuration file, on its host; checks its store and disk as well.",
)
@answering
def doctor(url: str | None, config: Path | None, *, as_json: bool) -> None:
    """Check the health of the running service.

    Checks from any machine: the connection, server limits, TLS, clocks, queues without workers, dead items,
    dead-letter nodes that do not exist, the event log. With --config, on the service's host, it also checks configuration, store
    and disk. Exits with 1 if anything is bad.
    """
    visit = Visit(for_programs=as_json)
    if config is not None:
        _look_inside(config, visit)
    try:
        asyncio.run(_look_outside(url, visit))
    except ConfigurationError as problem:
        stop(ASKED_WRONGLY, problem)
    except ValueError as problem:
        stop(ASKED_WRONGLY, problem)
    except PubqueueError as problem:
        visit.show(bad("service", str(problem)))
    if visit.failed:
        raise SystemExit(FAILED)


def _look_inside(config: Path, visit: Visit) -> None:
    try:
        from pubqueue.cli.management import local_checks  # noqa: PLC0415  # its libraries are an extra
    except ImportError as problem:
        stop(ASKED_WRONGLY, f"--config needs pip install 'pubqueue[server]' ({problem})")
    for finding in local_checks.findings(config):
        visit.show(finding)


async def _look_outside(url: str | None, visit: Visit) -> None:
    async with linked(url) as link:
        visit.show(good("login", f"{link.about.account} can log in"))
        async for finding in remote_checks.findings(link):
            visit.show(finding)
