"""`pubqueue publish`: publish items from a shell; the service confirms each before the command ends."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar
from xml.etree import ElementTree as ET

import click
import msgspec

from pubqueue.admin.connecting import publisher
from pubqueue.cli import output
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, plain, stop
from pubqueue.cli.session import NODE, answering, quiet
from pubqueue.operations.model import count
from pubqueue_xeps.client.publications import MAX_REQUEST_BYTES
from pubqueue_xeps.errors import NotAllPublished, PubqueueError
from pubqueue_xeps.wire.publication import NewItem, Published
from pubqueue_xeps.xep_qos.levels import Level, level_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence

    from pubqueue.admin.connecting import Publishes, Where


T = TypeVar("T")

AT_ONCE: Final = 500
"""Lines that are published before the next are read. This bounds the memory, and how many more items may be stored than are
reported."""

WHERE: Final = {
    None: "is in",
    Level.ASSURED: "is in",
    Level.ACKNOWLEDGED: "was received for",
    Level.UNACKNOWLEDGED: "was sent to",
}
"""What is known of an item when its publish has returned, by the level of the publish."""

INTERRUPTED: Final = 130
STDIN: Final = "standard input"


class BadPayloadError(ValueError):
    """A text is not a payload; the message is a sentence."""


def payload_of(text: str) -> object:
    """Return the payload in a text: an XML element, or a JSON value.

    Raises:
        BadPayloadError: it is neither.

    """
    try:
        if text.lstrip().startswith("<"):
            return ET.fromstring(text)  # noqa: S314  # of who publishes it
        return msgspec.json.decode(text)
    except ET.ParseError as problem:
        raise BadPayloadError(f"not an XML element: {problem}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise BadPayloadError(
            f"""neither JSON nor an XML element ({problem}); put a text in quotes: '"text"'"""
        ) from None


def headers_of(lines: Iterable[str]) -> dict[str, str] | None:
    """Return headers from lines `NAME: VALUE`.

    Raises:
        ValueError: a line has no colon.

    """
    found = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"--header takes 'NAME: VALUE', not {line!r}")
        found[name.strip()] = value.strip()
    return found or None


@click.command()
@click.argument("node", type=NODE)
@click.argument("payload", metavar="JSON|XML|@FILE|-")
@click.option(
    "--lines", is_flag=True, help="Each line of the payload is an item; empty lines are skipped."
)
@click.option(
    "--id", "name", metavar="ID", help="The item's id; publishing the same id again adds no item."
)
@click.option(
    "--id-prefix",
    metavar="PREFIX",
    help="With --lines: each id is this prefix and the line's number.",
)
@click.option("--priority", type=int, help="Items of a higher priority are delivered first.")
@click.option(
    "--delay", type=click.FloatRange(0), metavar="SECONDS", help="Time before the first delivery."
)
@click.option(
    "--ttl",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long the item may wait before it is dead.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A header, delivered with the payload; repeatable.",
)
@click.option("--group", help="The item's group.")
@click.option(
    "--type",
    "type_",
    metavar="TYPE",
    help="The content type, such as image/png: the payload is sent as it is, whatever it contains.",
)
@click.option(
    "--level",
    metavar="LEVEL",
    help="Publish by message (urn:xmpp:qos): unacknowledged, acknowledged or assured.",
)
@answering
def publish(
    where: Where,
    node: str,
    payload: str,
    *,
    lines: bool,
    name: str | None,
    id_prefix: str | None,
    priority: int | None,
    delay: float | None,
    ttl: float | None,
    headers: tuple[str, ...],
    group: str | None,
    type_: str | None,
    level: str | None,
    as_json: bool,
) -> None:
    """Publish to a node.

    The payload is an argument, the contents of a @FILE, or standard input (-). It is JSON or an XML element, or with
    --type any text or bytes. The command ends once the service has it on disk. With --lines and --id-prefix you can
    publish a file again after any error: existing items stay as they are. With --level unacknowledged it ends once
    the item is sent.
    """
    _check_ids(name, id_prefix, lines=lines)
    try:
        wanted = None if level is None else level_of(level)
        beside = headers_of(headers)
    except ValueError as problem:
        stop(ASKED_WRONGLY, problem)

    def item(given: str | bytes, name: str | None) -> NewItem:
        return NewItem(
            payload=payload_of(given) if isinstance(given, str) and type_ is None else given,
            id=name,
            priority=priority,
            delay=delay,
            ttl=ttl,
            headers=beside,
            group=group,
            type=type_,
        )

    def item_of_line(number: int, line: str) -> NewItem:
        text = line if type_ is None else line.removesuffix("\n")
        return item(text, None if id_prefix is None else f"{id_prefix}{number}")

    if type_ is not None and not lines:
        _publish_one(where, node, item(_bytes(payload), name), wanted, as_json=as_json)
        return
    try:
        source = _source(payload)
        new = None if lines else item("".join(source), name)
    except UnreadableError as problem:
        stop(ASKED_WRONGLY, problem)
    except BadPayloadError as problem:
        stop(ASKED_WRONGLY, f"the payload is {problem}")
    if new is None:
        _publish_all(where, node, source, item_of_line, wanted, as_json=as_json)
    else:
        _publish_one(where, node, new, wanted, as_json=as_json)


def _check_ids(name: str | None, id_prefix: str | None, *, lines: bool) -> None:
    """Stop if the options for ids do not fit."""
    if lines and name is not None:
        stop(ASKED_WRONGLY, "--id names one item; with --lines, use --id-prefix")
    if name == "":
        stop(ASKED_WRONGLY, "--id is empty; without --id, an id is generated")
    if id_prefix is not None and not lines:
        stop(ASKED_WRONGLY, "--id-prefix needs --lines; for one item, use --id")


class UnreadableError(Exception):
    """The payload cannot be read; the message is a sentence."""


def _source(payload: str) -> Iterator[str]:
    """Open the payload, and return its lines.

    Raises:
        UnreadableError: it cannot be opened; the lines raise it, too.

    """
    if payload == "-":
        return _lines(sys.stdin, STDIN)
    if not payload.startswith("@"):
        return iter(payload.splitlines(keepends=True))
    path = payload[1:]
    return _lines(_read(path, partial(Path(path).open, encoding="utf-8")), path)


def _lines(file: TextIO, shown: str) -> Iterator[str]:
    with file:
        while line := _read(shown, file.readline):
            yield line


def _read(shown: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except OSError as problem:
        raise UnreadableError(f"{shown} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise UnreadableError(f"{shown} cannot be read: {problem}") from None


def _bytes(payload: str) -> bytes:
    """Return the payload as it is; a file that cannot be read, or is larger than any request, is one sentence."""
    most = MAX_REQUEST_BYTES

    def contents() -> bytes:
        with sys.stdin.buffer if payload == "-" else Path(payload[1:]).open("rb") as file:
            return file.read(most + 1)

    if payload != "-" and not payload.startswith("@"):
        body = os.fsencode(payload)
    else:
        try:
            body = _read(STDIN if payload == "-" else payload[1:], contents)
        except UnreadableError as problem:
            stop(ASKED_WRONGLY, problem)
    if len(body) > most:
        stop(
            ASKED_WRONGLY, f"the payload has more than {most} bytes, and servers take no larger one"
        )
    return body


def _publish_one(
    where: Where, node: str, new: NewItem, level: Level | None, *, as_json: bool
) -> None:
    tally = Tally(node)

    async def work() -> list[Published]:
        async with publisher(where, level) as publishes:
            return await publishes.publish_many(node, [new])

    try:
        (one,) = _run(work(), tally)
    except NotAllPublished as problem:
        (why,) = problem.results
        stop(_code(why), why)
    if as_json:
        known = {"node": one.node, "id": one.id, "duplicate": one.duplicate}
        output.write_json({"done": "publish", **known})
    else:
        place = "was already in" if one.duplicate else WHERE[level]
        click.echo(plain(f"{one.id} {place} {one.node}."))


class Tally:
    """How many items have been confirmed, and how many of them already existed."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.confirmed = self.known = 0

    def add(self, results: Iterable[object]) -> None:
        """Count the results of some items."""
        for one in results:
            if isinstance(one, Published):
                self.confirmed += 1
                self.known += bool(one.duplicate)

    def __str__(self) -> str:
        known = f", {self.known} of them already existed" if self.known else ""
        return f"{count(self.confirmed, 'item')} of {self.node} confirmed{known}"


def _publish_all(
    where: Where,
    node: str,
    source: Iterable[str],
    item: Callable[[int, str], NewItem],
    level: Level | None,
    *,
    as_json: bool,
) -> None:
    tally = Tally(node)
    lines = ((number, line) for number, line in enumerate(source, 1) if line.strip())

    async def work() -> None:
        async with publisher(where, level) as publishes:
            while some := list(itertools.islice(lines, AT_ONCE)):
                await _publish_some(publishes, some, item, tally)

    _run(work(), tally)
    if as_json:
        known = {"node": node, "count": tally.confirmed, "duplicates": tally.known}
        output.write_json({"done": "publish", **known})
    else:
        click.echo(plain(f"{tally}."))


async def _publish_some(
    publishes: Publishes,
    some: Sequence[tuple[int, str]],
    item: Callable[[int, str], NewItem],
    tally: Tally,
) -> None:
    """Publish these lines, up to the first bad one; raises BadLineError for that one or for a refused item."""
    new: list[NewItem] = []
    bad = None
    for number, line in some:
        try:
            new.append(item(number, line))
        except BadPayloadError as problem:
            bad = BadLineError(ASKED_WRONGLY, number, f"line {number} is {problem}")
            break
    try:
        tally.add(await publishes.publish_many(tally.node, new))
    except NotAllPublished as problem:
        tally.add(problem.results)
        at, why = next(
            (at, one) for at, one in enumerate(problem.results) if isinstance(one, Exception)
        )
        raise BadLineError(_code(why), some[at][0], f"line {some[at][0]}: {why}") from None
    if bad is not None:
        raise bad


class BadLineError(Exception):
    """A line could not be published, for a reason that is a sentence. Facts: the exit `code`, and the number of the `line`."""

    def __init__(self, code: int, line: int, sentence: str) -> None:
        super().__init__(sentence.rstrip("."))
        self.code, self.line = code, line


def _code(why: object) -> int:
    return ASKED_WRONGLY if isinstance(why, (ValueError, TypeError)) else FAILED


def _run(work: Coroutine[Any, Any, T], tally: Tally) -> T:
    """Do the work; a failure is one sentence, with the number of confirmed items if that matters."""
    quiet()
    try:
        return asyncio.run(work)
    except NotAllPublished:
        raise
    except UnreadableError as problem:
        stop(ASKED_WRONGLY, plain(f"{problem}. {tally}."))
    except BadLineError as problem:
        stop(problem.code, plain(f"{problem}. {tally}."))
    except ValueError as problem:  # of settings, the server's address, or what is read
        stop(ASKED_WRONGLY, problem)
    except PubqueueError as problem:
        stop(FAILED, problem)
    except KeyboardInterrupt:
        stop(INTERRUPTED, f"interrupted. {tally}.")
