"""A session with the service that performs operations; its carriers are `over_xmpp` and `over_http`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pubqueue.model.replies import Power
from pubqueue.operations.model import texts
from pubqueue.operations.schedules import DEFINING, SHOW
from pubqueue.rules.validity import MAX_NAMED
from pubqueue_xeps.errors import PubqueueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pubqueue.operations.model import Operation, Value
    from pubqueue_xeps.wire.refusals import Refusal

WRONG: Final = frozenset({"bad-request", "jid-malformed", "not-acceptable"})
"""Conditions of usage errors."""


class OperationRefused(PubqueueError):  # noqa: N818  # its family names what happened
    """The service refused the operation."""

    def __init__(
        self, message: str, operation: str, *, node: str = "", condition: str = ""
    ) -> None:
        super().__init__(message, node=node or None, condition=condition or None)
        self.operation = operation
        """The name of the operation."""

    @property
    def wrongly(self) -> bool:
        """Whether this is a usage error: a parameter is missing, unknown or invalid."""
        return self.condition in WRONG


@dataclass(frozen=True, slots=True)
class Page:
    """A page of an operation's answer: rows by the names of their columns, and where the next page begins."""

    note: str
    """The result in a sentence."""
    rows: tuple[dict[str, Value], ...]
    through: str = ""
    """The place up to which the rows are complete: with `more`, the parameter `after` of the next page."""
    more: bool = False
    now: int | None = None
    """The service's time, in milliseconds since 1970."""
    oldest: int | None = None
    newest: int | None = None
    """The ends of the log that the rows belong to."""
    warns: bool = False
    """The operation had no effect, found less than was named, or warns of something."""


@dataclass(frozen=True, slots=True)
class About:
    """Who is logged in, and at which service, as sentences name them."""

    account: str
    service: str


class Link(ABC):
    """A session with the service."""

    about: About

    @abstractmethod
    async def perform(self, operation: Operation, words: Mapping[str, tuple[str, ...]]) -> Page:
        """Perform an operation, or read its next page.

        Raises:
            OperationRefused: the service refuses.
            ServiceUnavailable: no answer can come.

        """

    @property
    @abstractmethod
    def tls(self) -> tuple[str, str, int] | None:
        """The version of TLS of the connection, its cipher and the bits of its key; None without TLS."""

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

    async def to_the_end(
        self, operation: Operation, words: Mapping[str, tuple[str, ...]]
    ) -> dict[str, Any]:
        """Perform an operation part by part, with as many named items as one likes; return its row with the sums of all parts."""
        found: dict[str, Any] = {}
        items = tuple(dict.fromkeys(words.get("item", ())))
        for at in range(0, max(1, len(items)), MAX_NAMED):
            given = dict(words)
            if some := items[at : at + MAX_NAMED]:
                given["item"] = some
            while True:
                page = await self.perform(operation, given)
                for name, value in page.rows[0].items():
                    found[name] = _sum(found.get(name), value)
                if not page.more:
                    break
                if page.through:
                    given["after"] = (page.through,)
        return found

    def _refused(
        self, refusal: Refusal, operation: Operation, words: Mapping[str, tuple[str, ...]]
    ) -> OperationRefused:
        """Return the error for a refusal."""
        node = "".join(words.get("node", ()))
        sentence = self._sentence(refusal, operation, node, of_items=bool(words.get("item")))
        return OperationRefused(sentence, operation.name, node=node, condition=refusal.condition)

    def _unknown(self, operation: Operation) -> OperationRefused:
        """Return the error for an operation that the service does not know."""
        return OperationRefused(
            f"{self.about.service} runs a version that does not support {operation.name} for programs.",
            operation.name,
        )

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


def _sum(before: Value, value: Value) -> Value:
    """Return the sum of two cells: counts are added, lists joined; of others the last one counts."""
    if isinstance(value, tuple):
        return (*before, *value) if isinstance(before, tuple) else value
    if isinstance(value, int) and not isinstance(value, bool):
        return value + before if isinstance(before, int) else value
    return before if value is None else value


async def changed_schedule(
    link: Link, given: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return all parameters of a schedule that is changed: what is not given stays as it stands."""
    (row,) = (await link.perform(SHOW, {"schedule": given["schedule"]})).rows
    cells = {column.name: column.cell for column in SHOW.columns}
    stands = {one.name: texts(cells[one.name], row[one.name]) for one in DEFINING}
    return {**stands, **given}
