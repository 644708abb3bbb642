"""`pubqueue doctor`, and what it checks over XMPP and over HTTP. `local_checks` looks at the configuration."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click
from slixmpp.exceptions import IqError

from pubqueue.admin.connecting import Where, linked
from pubqueue.admin.over_http import HttpLink
from pubqueue.admin.over_xmpp import XmppLink
from pubqueue.admin.session import OperationRefused
from pubqueue.cli import output
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, plain, stop
from pubqueue.cli.output import Level, bad, good, look
from pubqueue.cli.session import answering, quiet
from pubqueue.operations.clients import CONNECTIONS, DISABLED, REGISTRATIONS
from pubqueue.operations.items import EVENTS, ITEMS
from pubqueue.operations.model import count, moment, span, stamp
from pubqueue.operations.nodes import NO_QUEUE, PAUSED, QUEUES
from pubqueue.operations.service import ALERTS, FAILING, RAISED, SERVICE
from pubqueue_xeps.client.ask import ask
from pubqueue_xeps.client.connection import URL
from pubqueue_xeps.errors import PubqueueError, ServiceUnavailable
from pubqueue_xeps.wire.ns import PING, TIME
from pubqueue_xeps.wire.requests import IqRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pubqueue.admin.session import Link, Page
    from pubqueue.cli.output import Finding
    from pubqueue.operations.model import Value


# What `pubqueue doctor` checks from outside: the connection to the service, its clock, its queues, its log.

BURST: Final = 40
PADDING: Final = 2_048
"""Pings at once, and bytes of each: together more than a server that limits a session to 10 KB/s passes in a second."""

THROTTLED: Final = 4.0
"""Seconds; a burst that takes longer is being held back."""

TIMEOUT: Final = 60.0
"""Seconds for which an answer is waited for."""

LARGE: Final = 230_000
"""Bytes of a stanza that the service may have to send: servers relay 256 KiB by default."""

SKEW: Final = 2_000
"""Milliseconds of difference between clocks that do not matter."""

WRONG_CLOCK: Final = 60_000
"""Milliseconds of difference above which locks and deadlines are wrong."""

STALLED: Final = "made no progress in time; the log of the service names what they wait for"

NAMED: Final = 5
"""Queues that are named in one sentence."""

MAX_REGISTRATIONS: Final = 500
"""Registrations of pushes that are looked at."""

MAX_ALERTS: Final = 200
"""Alerts that are looked at."""

MAX_HOLDING: Final = 20
MAX_HELD: Final = 200
"""Queues with held items, and held items of each, that are looked at."""

MAX_NODES: Final = 10_000
"""Nodes that are looked at."""


async def remote_findings(link: Link) -> AsyncIterator[Finding]:
    """Check everything, and yield each finding as it comes."""
    yield _tls(link)
    if isinstance(link, HttpLink):
        yield await _readiness(link)
    async for finding in service(link):
        yield finding
    if isinstance(link, XmppLink):
        yield await _clock(link, link.about.service, "service clock")
        yield await _clock(link, link.client.boundjid.domain, "server clock")
    async for finding in _queues(link):
        yield finding
    yield await _log(link)
    if isinstance(link, XmppLink):
        held_back = await _burst(link)
        yield held_back
        if held_back.level == "good":
            yield await _large(link)


def _tls(link: Link) -> Finding:
    if link.tls is None:
        return look(
            "TLS", "the connection is not encrypted; this is allowed only for a loopback address"
        )
    version, name, bits = link.tls
    return good("TLS", f"{version}, {name} with {bits} bits")


async def _readiness(link: HttpLink) -> Finding:
    """Return whether the service serves all protocols; over HTTP it answers even if its XMPP server is away."""
    if whys := await link.readiness():
        return bad("readiness", f"not everybody is served: {'; '.join(whys)}")
    return good("readiness", "the service serves every protocol that it is configured for")


async def service(link: Link) -> AsyncIterator[Finding]:
    """Yield what the service reports about itself: its tasks, its clock, its limits."""
    asked = round(time.time() * 1000)
    try:
        page = await link.perform(SERVICE, {})
    except OperationRefused as problem:
        yield look("service", f"{problem} Some checks are skipped.")
        return
    if isinstance(link, HttpLink) and page.now is not None:
        took = round(time.time() * 1000) - asked
        yield _skew(link.about.service, "service clock", page.now - asked - took // 2)
    (row,) = page.rows
    since = row["uptime"]
    runs = span(page.now - since) if isinstance(since, int) and page.now else "an unknown time"
    nodes = row["nodes"] if isinstance(row["nodes"], int) else 0
    yield _alive(row.get("late")) or good(
        "service",
        f"pubqueue {row['version']}, up for {runs}, {count(nodes, 'node')} in {row['store']}",
    )
    yield store_clock(row["clock_ahead"])
    limits = row["limits"]
    for sentence in limits if isinstance(limits, tuple) else ():
        yield good("limits", sentence)
    yield kept(row)
    with suppress(OperationRefused):  # an older service does not report it
        page = await link.perform(CONNECTIONS, {"max": ("1",)})
        yield good("clients", page.note.partition(".")[0])
    with suppress(OperationRefused):
        page = await link.perform(REGISTRATIONS, {"max": (f"{MAX_REGISTRATIONS}",)})
        if page.rows:
            yield pushes(page)
    with suppress(OperationRefused):
        page = await link.perform(ALERTS, {"max": (f"{MAX_ALERTS}",)})
        for finding in alerts(page):
            yield finding


def alerts(page: Page) -> Iterator[Finding]:
    """Yield the targets that do not take alerts, and how many alerts are raised."""
    failing = [row for row in page.rows if row.get("state") == FAILING]
    for row in failing:
        yield bad("alerts", f"{row['subject']} does not take alerts: {row['detail']}")
    raised = [
        f"{row['kind']} ({row['subject']})" for row in page.rows if row.get("state") == RAISED
    ]
    if raised:
        yield look("alerts", f"raised: {_named(raised)}")
    elif not failing:
        yield good("alerts", "none is raised")


def pushes(page: Page) -> Finding:
    """Return how pushes go to the first registrations."""
    failing = [
        f"{row['registration']} of {row['node']}"
        for row in page.rows
        if row.get("state") == DISABLED or row.get("failures")
    ]
    if failing:
        return look("pushes", f"these registrations fail or are disabled: {_named(failing)}")
    return good("pushes", f"{page.note.rstrip('.')}; none fails")


def _alive(late: Value) -> Finding | None:
    """Return which tasks of the service have stalled, if any; an older service does not report it."""
    if not late:
        return None
    names = ", ".join(late) if isinstance(late, tuple) else late
    return bad("service", f"stalled: {names} {STALLED}")


def store_clock(ahead: Value) -> Finding:
    """Compare the clock of the store, which decides deadlines, with that of the instance that has answered."""
    about = "store clock"
    if not isinstance(ahead, int):
        return good(about, "the store uses the clock of the service's machine")
    if abs(ahead) <= SKEW:
        return good(
            about, f"the clocks of service and store differ by up to {max(1, abs(ahead))} ms"
        )
    side = "behind" if ahead > 0 else "ahead of"
    sentence = f"the service's clock is {span(abs(ahead))} {side} the store's, which decides deadlines; times in the service's log differ"
    return look(about, sentence)


def kept(row: dict[str, Value]) -> Finding:
    """Return the quotas of an account, and the accounts that are near theirs."""
    bounds = [
        f"{row[f'{what}_limit'] or 'any number of'} {what}" for what in ("nodes", "items", "bytes")
    ]
    sentence = f"an account may have {', '.join(bounds)}"
    nearest = row["nearest"]
    names = [str(name) for name in nearest] if isinstance(nearest, (list, tuple)) else []
    sentence += f"; nearest to a limit: {', '.join(names)}" if names else ""
    return look("quotas", sentence) if row["near"] else good("quotas", sentence)


async def _clock(link: XmppLink, who: str, about: str) -> Finding:
    """Compare a clock with ours (XEP-0202), as it was half-way between the question and the answer."""
    asked = time.time()
    try:
        answer = await ask(
            link.client, who, IqRequest("get", "the time", f"<time xmlns='{TIME}'/>"), 10
        )
    except IqError:
        return good(about, f"{who} does not report its time (XEP-0202)")
    except ServiceUnavailable:
        return look(about, f"{who} does not answer a request for its time")
    utc = answer.findtext(f"{{{TIME}}}time/{{{TIME}}}utc") or ""
    try:
        theirs = moment(utc.strip())
    except ValueError:
        return look(about, f"{who} does not answer a request for its time")
    return _skew(who, about, round(theirs - (asked + time.time()) * 500))


def _skew(who: str, about: str, skew: int) -> Finding:
    """Return by how many milliseconds a clock is ahead of ours."""
    if abs(skew) <= SKEW:
        return good(about, f"the clock of {who} differs from ours by up to {max(1, abs(skew))} ms")
    sentence = f"the clock of {who} is {span(abs(skew))} {'ahead of' if skew > 0 else 'behind'} this machine's"
    return bad(about, sentence) if abs(skew) > WRONG_CLOCK else look(about, sentence)


# --- queues -------------------------------------------------------------------------------------


async def _queues(link: Link) -> AsyncIterator[Finding]:
    nodes: dict[str, dict[str, Value]] = {}
    more = False
    try:
        async for page in link.pages(QUEUES, {}, MAX_NODES):
            nodes |= {str(row["node"]): row for row in page.rows}
            more = page.more
    except OperationRefused as problem:
        yield bad("queues", str(problem))
        return
    queues = [row for row in nodes.values() if row["state"] != NO_QUEUE]
    yield good("queues", count(len(queues), "queue") + (" and more" if more else ""))
    missing = {
        f"{name} of {row['node']}"
        for row in queues
        if (name := row["dead_letter_node"]) and name not in nodes and not more
    }
    if missing:
        yield bad("dead-letter nodes", f"missing: {_named(sorted(missing))}")
    yield _about(
        "dead items", queues, "dead", "there are no dead items", "these queues have dead items"
    )
    alone = [row for row in queues if row["depth"] and not row["workers"]]
    yield _about(
        "workers",
        alone,
        "depth",
        "every queue with waiting items has a worker",
        "items wait in queues without workers",
    )
    too_large = [row for row in queues if row.get("too_large")]
    if too_large:
        yield _about(
            *("items too large", too_large, "too_large", ""),
            "items wait that the protocol of no connected worker can carry",
        )
    async for finding in _joins(link, queues):
        yield finding
    if paused := [str(row["node"]) for row in queues if row["state"] != "running"]:
        yield look(PAUSED, f"paused or closed to publishers: {_named(paused)}")


async def _joins(link: Link, queues: list[dict[str, Value]]) -> AsyncIterator[Finding]:
    """Yield the joins that wait for dead members, among the first held items of the first queues that have some."""
    found: list[str] = []
    holding = [str(row["node"]) for row in queues if row.get("held")]
    for node in holding[:MAX_HOLDING]:
        with suppress(OperationRefused):  # the node may be gone
            page = await link.perform(
                ITEMS, {"node": (node,), "state": ("held",), "max": (f"{MAX_HELD}",)}
            )
            found += [
                f"{row['id']} of {node} ({row['dead_members']})"
                for row in page.rows
                if row.get("dead_members")
            ]
    if found:
        yield look("joins", f"these items wait for dead ones: {_named(found)}")
    elif holding:
        yield good("joins", "no item waits for dead ones")


def _about(
    about: str, rows: list[dict[str, Value]], counted: str, fine: str, otherwise: str
) -> Finding:
    """Return a finding about the rows whose count is not zero, the highest counts first."""
    found = [(n, str(row["node"])) for row in rows if isinstance(n := row[counted], int) and n]
    if not found:
        return good(about, fine)
    names = [f"{name} ({n})" for n, name in sorted(found, key=lambda one: (-one[0], one[1]))]
    return look(about, f"{otherwise}: {_named(names)}")


def _named(names: list[str]) -> str:
    left = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {left} more" if left > 0 else "")


async def _log(link: Link) -> Finding:
    try:
        page = await link.perform(EVENTS, {"max": ("1",)})
    except OperationRefused as problem:
        return look("event log", str(problem))
    if not page.newest or page.oldest is None:
        return good("event log", "no event has been logged; a node keeps a log if event_log is on")
    kept = count(page.newest - page.oldest + 1, "event")
    at = page.rows[0]["at"] if page.rows else None
    since = f", the oldest from {stamp(at)}" if isinstance(at, int) else ""
    return good("event log", f"{kept} kept{since}")


# --- the connection ------------------------------------------------------------------------------------


async def _burst(link: XmppLink) -> Finding:
    """Send pings that together are more than a throttled session may send at once (XEP-0199)."""
    begun = time.monotonic()
    pings = [
        _ping(link, PADDING, TIMEOUT) for _ in range(BURST)
    ]  # all are written before the first is answered
    try:
        await asyncio.gather(*pings)
    except (IqError, ServiceUnavailable) as problem:
        return bad("rate", f"the service does not answer pings: {problem}")
    took = time.monotonic() - begun
    rate = BURST * PADDING / took / 1000
    if took > THROTTLED:
        return look(
            "rate",
            f"only about {rate:.0f} KB/s reach the service: the server's rate limits slow this account down; "
            "exempt it (unlimited_jids of Prosody, the ACL queue_clients of ejabberd)",
        )
    return good("rate", f"{BURST} pings of 2 KB took {took * 1000:.0f} ms")


async def _large(link: XmppLink) -> Finding:
    """Send a stanza of nearly the largest size; this is last, because a server that refuses it ends the stream."""
    try:
        await _ping(link, LARGE, TIMEOUT)
    except IqError:
        pass  # it has arrived, and that is what matters
    except ServiceUnavailable:
        sentence = (
            f"a stanza of {LARGE} bytes does not arrive: large payloads and pages will not either"
        )
        return look("stanza size", sentence)
    return good("stanza size", f"a stanza of {LARGE} bytes arrives")


async def _ping(link: XmppLink, size: int, patience: float) -> None:
    inner = f"<ping xmlns='{PING}'>{' ' * size}</ping>"
    await ask(link.client, link.about.service, IqRequest("get", "a ping", inner), patience)


# `pubqueue doctor`: check the running service, and print what is good, what to look at, and what is bad.

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
@answering
def doctor(where: Where, *, as_json: bool) -> None:
    """Check the health of the running service.

    Checks from any machine: the connection, server limits, TLS, clocks, queues without workers, dead items,
    dead-letter nodes that do not exist, the event log. With --config, on the service's host, it also checks configuration, store
    and disk. Over HTTP it needs no XMPP server, and also checks whether the service is connected to its own. Exits with 1 if anything is bad.
    """
    visit = Visit(for_programs=as_json)
    if where.config is not None:
        try:
            from pubqueue.cli import local_checks  # noqa: PLC0415  # its libraries are an extra
        except ImportError as problem:
            stop(ASKED_WRONGLY, f"--config needs pip install 'pubqueue[server]' ({problem})")
        for finding in local_checks.local_findings(where.config):
            visit.show(finding)
        if where.url or os.environ.get(URL):
            where = Where(url=where.url)  # with the rights and over the way of that account
    quiet()
    try:
        asyncio.run(_look_outside(where, visit))
    except ValueError as problem:
        stop(ASKED_WRONGLY, problem)
    except PubqueueError as problem:
        visit.show(bad("service", str(problem)))
    if visit.failed:
        raise SystemExit(FAILED)


async def _look_outside(where: Where, visit: Visit) -> None:
    async with linked(where) as link:
        if isinstance(link, HttpLink):
            await link.log_in()
        visit.show(good("login", f"{link.about.account} can log in"))
        async for finding in remote_findings(link):
            visit.show(finding)
