"""A session of a command with the service, and the options that all such commands have."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from slixmpp.exceptions import IqError

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.model.replies import Power
from pubqueue.operations.model import moment, value_of
from pubqueue.operations.nodes import QUEUES
from pubqueue_xeps.client.ask import ask
from pubqueue_xeps.client.connection import PartialConnection, connection
from pubqueue_xeps.client.xmpp_client import login, logout
from pubqueue_xeps.errors import PubqueueError
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.ns import COMMANDS, DATA, PUBQUEUE
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.xml_text import content, quote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
    from xml.etree.ElementTree import Element

    from pubqueue.operations.model import Operation, Value
    from pubqueue_xeps.client.connection import Connection
    from pubqueue_xeps.client.xmpp_client import Client
    from pubqueue_xeps.wire.refusals import Refusal


# A session with the service: log in, perform operations, read their answers.

FORM_TYPE: Final = f"{PUBQUEUE}#operation"

WRONG: Final = frozenset({"bad-request", "jid-malformed", "not-acceptable"})
"""Conditions of usage errors."""


class RefusedError(Exception):
    """The service refuses an operation; the message is a sentence.

    Facts: the name of the `operation`, its `node`, and the stanza error's `condition`; empty if there is none.
    """

    def __init__(
        self, message: str, operation: str, *, node: str = "", condition: str = ""
    ) -> None:
        super().__init__(message)
        self.operation, self.node, self.condition = operation, node, condition

    @property
    def wrongly(self) -> bool:
        """Whether this is a usage error."""
        return self.condition in WRONG


@dataclass(frozen=True, slots=True)
class Page:
    """A page of an operation's answer: rows by the names of their columns, and where the next page begins."""

    note: str
    rows: tuple[dict[str, Value], ...]
    through: str
    more: bool
    now: int | None
    oldest: int | None = None
    newest: int | None = None
    warns: bool = False


class Link:
    """A session with the service."""

    def __init__(self, client: Client, about: Connection, timeout: float) -> None:
        self.client = client
        self.about = about
        self._timeout = timeout

    async def perform(self, operation: Operation, words: Mapping[str, tuple[str, ...]]) -> Page:
        """Perform an operation, or read its next page.

        Raises:
            RefusedError: the service refuses.
            ServiceUnavailable: no answer can come.

        """
        question = IqRequest("set", operation.label, _command(operation, words))
        try:
            answer = await ask(self.client, self.about.service, question, self._timeout)
        except IqError as error:
            raise self._refused(refusals.read(error.iq.xml), operation, words) from None
        return self._read(operation, answer)

    async def pages(
        self, operation: Operation, words: Mapping[str, tuple[str, ...]], most: int | None = None
    ) -> AsyncIterator[Page]:
        """Yield an answer page by page, up to `most` rows."""
        given = dict(words)
        left = most
        while True:
            if left is not None and any(one.name == "max" for one in operation.parameters):
                given["max"] = (str(left),)
            page = await self.perform(operation, given)
            left = None if left is None else left - len(page.rows)
            yield page
            if not page.more or (left is not None and left <= 0):
                return
            given["after"] = (page.through,)

    def _read(self, operation: Operation, answer: Element) -> Page:
        command = answer.find(f"{{{COMMANDS}}}command")
        form = None if command is None else command.find(f"{{{DATA}}}x")
        known = {} if form is None else _fields(form)
        if command is None or form is None or known.get("FORM_TYPE") != (FORM_TYPE,):
            raise RefusedError(
                f"{self.about.service} runs a version that does not support {operation.name} for programs.",
                operation.name,
            )
        note = command.find(f"{{{COMMANDS}}}note")
        now = known.get("now", ())
        ends = {name: int(known[name][0]) for name in ("oldest", "newest") if known.get(name)}
        return Page(
            note="" if note is None else note.text or "",
            rows=tuple(_row(operation, item) for item in form.iterfind(f"{{{DATA}}}item")),
            through="".join(known.get("through", ())),
            more=known.get("more") == ("1",),
            now=moment(now[0]) if now else None,
            warns=note is not None and note.get("type") == "warn",
            **ends,
        )

    def _refused(
        self, refusal: Refusal, operation: Operation, words: Mapping[str, tuple[str, ...]]
    ) -> RefusedError:
        """Return the error for a refusal."""
        node = "".join(words.get("node", ()))
        sentence = self._sentence(refusal, operation, node, of_items=bool(words.get("item")))
        return RefusedError(sentence, operation.name, node=node, condition=refusal.condition)

    def _sentence(
        self, refusal: Refusal, operation: Operation, node: str, *, of_items: bool
    ) -> str:
        service = self.about.service
        reason = refusal.text.strip().rstrip(".")
        match refusal.condition:
            case "forbidden":
                who = f"{self.about.account} is not an administrator of {service}"
                owners_may = node and operation.power is not Power.SERVICE
                who += f", and does not own {node}" if owners_may else ""
                return f"{who} ({reason})." if reason else f"{who}."
            case "item-not-found":
                where = f"{service} has no node {node}" if node else f"{service} did not find it"
                where += ", or not all of these items" if of_items else ""
                return f"{reason or where}."
            case "service-unavailable" | "remote-server-not-found" | "remote-server-timeout":
                return f"{service} is unavailable: {refusal.summary}."
            case _:
                return f"{service} refuses: {reason or refusal.name}."


def _command(operation: Operation, words: Mapping[str, tuple[str, ...]]) -> str:
    """Return the command that performs the operation in one step."""
    fields = _field("FORM_TYPE", (FORM_TYPE,)) + "".join(_field(*each) for each in words.items())
    node = quote(f"{PUBQUEUE}#{operation.name}")
    x = f"<x xmlns='{DATA}' type='submit'>{fields}</x>"
    return f"<command xmlns='{COMMANDS}' node={node} action='execute'>{x}</command>"


def _field(var: str, values: tuple[str, ...]) -> str:
    inner = "".join(f"<value>{content(value)}</value>" for value in values)
    return f"<field var={quote(var)}>{inner}</field>"


def _fields(element: Element) -> dict[str, tuple[str, ...]]:
    return {
        field.get("var", ""): tuple(
            value.text or "" for value in field.iterfind(f"{{{DATA}}}value")
        )
        for field in element.iterfind(f"{{{DATA}}}field")
    }


def _row(operation: Operation, item: Element) -> dict[str, Value]:
    """Return the cells of the known columns; a later version may have others."""
    values = _fields(item)
    return {
        column.name: value_of(column.cell, values.get(column.name, ()))
        for column in operation.columns
    }


@asynccontextmanager
async def linked(url: str | None, *, timeout: float = 30.0) -> AsyncIterator[Link]:  # noqa: ASYNC109  # a promise
    """Log in with the URL or the environment's settings, and log out at the end.

    Raises:
        ConfigurationError: the account, the service or the password is not set.
        LoginFailed: the server refuses the login.

    """
    logging.getLogger("slixmpp").setLevel(
        logging.CRITICAL
    )  # what it warns of, we say in a sentence
    about = connection(PartialConnection(), role="operator", url=url)
    client = about.client()
    await login(client, timeout=timeout)
    try:
        yield Link(client, about, timeout)
    finally:
        await logout(client)


# What all commands that manage queues have in common: connection options, output format and exit codes.

QUICK: Final = 2.0
"""Seconds that completion may take."""


def connecting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option with the account and the service."""
    return click.option(
        "--url",
        metavar="URL",
        help="Your account and the service: xmpp://admin@example.org/queue.example.org (default: PUBQUEUE_URL)."
        " The password is in PUBQUEUE_PASSWORD, or in the file that PUBQUEUE_PASSWORD_FILE names.",
    )(command)


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for the connection and for JSON."""
    json = click.option("--json", "as_json", is_flag=True, help="Write JSON, one object per line.")
    return json(connecting(command))


def run(url: str | None, work: Callable[[Link], Coroutine[Any, Any, None]]) -> None:
    """Do the work over a link; a failure is one sentence on standard error, and an exit code."""

    async def linking() -> None:
        async with linked(url) as link:
            await work(link)

    try:
        asyncio.run(linking())
    except RefusedError as problem:
        stop(ASKED_WRONGLY if problem.wrongly else FAILED, problem)
    except (
        ValueError
    ) as problem:  # of settings, parameters, the server's address, or what XML cannot carry
        stop(ASKED_WRONGLY, problem)
    except PubqueueError as problem:
        stop(FAILED, problem)


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
        url = ctx.params.get("url")

        async def names() -> list[str]:
            async with asyncio.timeout(QUICK), linked(url, timeout=QUICK) as link:
                words = {"after": (incomplete[:-1],)} if incomplete else {}
                found = await link.perform(QUEUES, words)
                return [str(row["node"]) for row in found.rows]

        try:
            found = asyncio.run(names())
        except (PubqueueError, RefusedError, ValueError, OSError, TimeoutError):
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
