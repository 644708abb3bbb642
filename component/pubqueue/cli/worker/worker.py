"""`pubqueue worker`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import click
from slixmpp.jid import JID

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.worker.supervisor import supervise
from pubqueue.cli.worker.worker_target import TargetError, load
from pubqueue_xeps.client.connection import URL, read_url
from pubqueue_xeps.errors import PubqueueError
from pubqueue_xeps.worker.worker import REQUESTS, Worker


@click.command()
@click.argument("target", metavar="MODULE:NAME")
@click.option("--url", help="Account and service: xmpp://bot@example.org/queue.example.org.")
@click.option("--node", multiple=True, help="The queue to work for; repeatable.")
@click.option(
    "--requests",
    type=click.IntRange(1),
    default=REQUESTS,
    show_default=True,
    help="Number of items of each queue that a process takes at a time.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of processes.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30,
    show_default=True,
    help="Seconds for the current items to finish on exit.",
)
@click.option(
    "--level",
    metavar="LEVEL",
    help="How deliveries are sent (urn:xmpp:qos): unacknowledged, acknowledged or assured.",
)
@click.option(
    "--reload", is_flag=True, help="Restart when a Python file of this directory changes."
)
@click.option("--quiet", is_flag=True, help="Print only warnings.")
def worker(
    *,
    target: str,
    url: str | None,
    node: tuple[str, ...],
    requests: int,
    processes: int,
    grace: float,
    level: str | None,
    reload: bool,
    quiet: bool,
) -> None:
    """Run a worker until SIGTERM or SIGINT.

    MODULE:NAME is a function that takes an item, or Handlers; modules are searched in the current directory
    first. PUBQUEUE_URL is the default of --url; the password is in PUBQUEUE_PASSWORD, or
    in the file that PUBQUEUE_PASSWORD_FILE names. On exit the worker finishes its current items, and exits
    with 0.
    """
    if reload and find_spec("watchfiles") is None:
        stop(ASKED_WRONGLY, "--reload needs pip install 'pubqueue[reload]'")
    if quiet:
        os.environ["PUBQUEUE_QUIET"] = "1"
    # its warnings say what the worker says better; a program's own logging still has them
    logging.getLogger("slixmpp").addHandler(logging.NullHandler())
    try:
        made = Worker(
            url=url or None, node=node or None, requests=requests, grace=grace, level=level
        )
        if not reload and processes == 1:
            return asyncio.run(made.run(load(target)))
        _check_processes(processes, url or os.environ[URL])
    except (ValueError, TargetError) as problem:
        stop(ASKED_WRONGLY, _uncapitalized(problem))
    except PubqueueError as problem:
        stop(FAILED, _uncapitalized(problem))
    given = {"url": url, "requests": requests, "grace": grace, "level": level}
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    flags += [f"--node={name}" for name in node]
    folder = Path.cwd() if reload else None
    sys.exit(asyncio.run(supervise(["worker", target, *flags], processes, folder)))


def _check_processes(processes: int, url: str) -> None:
    if processes > 1 and JID(read_url(url).jid).resource:
        raise ValueError(
            "Each of several processes chooses its own resource: remove the resource from the URL."
        )


def _uncapitalized(problem: Exception) -> str:
    """Return a sentence as it continues after the program's name."""
    sentence = str(problem).rstrip(".")
    first, _, rest = sentence.partition(" ")
    return f"{first.lower()} {rest}" if first.istitle() and rest else sentence
