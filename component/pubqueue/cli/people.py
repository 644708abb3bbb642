"""`pubqueue people`: a worker whose work is done by people, in their chat clients."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from typing import Final

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue_xeps.errors import ConfigurationError, PubqueueError
from pubqueue_xeps.people.bot import People
from pubqueue_xeps.sentences import STANDARD_ERROR

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LENGTH: Final = re.compile(r"([0-9]{1,7})([smhd]?)", re.ASCII)


class Length(click.ParamType[float]):
    """A length of time, as 90, 30m, 2h or 1d; without a unit, seconds."""

    name = "time"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return it in seconds."""
        found = LENGTH.fullmatch(str(value))
        if found is None or not int(found[1]):
            self.fail(f"{value!r} is no length of time, such as 90s, 30m, 2h or 1d", param, ctx)
        return float(int(found[1]) * UNITS[found[2] or "s"])


@click.command()
@click.option("--url", help="Account and service: xmpp://bot@example.org/queue.example.org.")
@click.option("--node", multiple=True, help="The queue whose items are questions; repeatable.")
@click.option(
    "--ask", metavar="JID", multiple=True, help="A person to ask: a bare JID; repeatable."
)
@click.option(
    "--room", metavar="JID", multiple=True, help="A room to ask, whose members answer; repeatable."
)
@click.option(
    "--window",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Questions that are open at a time for each person or room.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="People to whom a question is put at the same time; the first answer counts.",
)
@click.option(
    "--within",
    type=Length(),
    default="2h",
    show_default=True,
    help="The time that a person has to answer; then it is the next one's turn.",
)
@click.option("--remind", type=Length(), help="Remind of an open question this often.")
@click.option(
    "--escalate",
    metavar="NODE",
    help="The queue to which a question is published that nobody has answered, with who was asked.",
)
@click.option(
    "--signal",
    metavar="NODE",
    multiple=True,
    help="A queue to whose held items answers may be sent, if a question says so; repeatable.",
)
@click.option("--quiet", is_flag=True, help="Print only warnings.")
def people(
    *,
    url: str | None,
    node: tuple[str, ...],
    ask: tuple[str, ...],
    room: tuple[str, ...],
    window: int,
    at_once: int,
    within: float,
    remind: float | None,
    escalate: str | None,
    signal: tuple[str, ...],
    quiet: bool,
) -> None:
    """Ask people in their chat clients.

    Runs until SIGTERM or SIGINT. Each item of the queue is a question; the answer of a person ends it. PUBQUEUE_URL is the default of --url; the password
    is in PUBQUEUE_PASSWORD, or in the file that PUBQUEUE_PASSWORD_FILE names. The account has one such program
    at a time. On exit questions stay open, and the next start goes on with them.
    """
    if quiet:
        os.environ["PUBQUEUE_QUIET"] = "1"
    # its warnings say what the bot says better
    logging.getLogger("slixmpp").addHandler(logging.NullHandler())
    try:
        bot = People(
            node or None,
            ask=ask,
            rooms=room,
            window=window,
            at_once=at_once,
            within=within,
            remind=remind,
            escalate=escalate,
            signals=signal,
            url=url,
        )
        with STANDARD_ERROR.reporting():
            asyncio.run(bot.run())
    except ConfigurationError as problem:
        stop(ASKED_WRONGLY, str(problem).rstrip("."))
    except PubqueueError as problem:
        stop(FAILED, str(problem).rstrip("."))
