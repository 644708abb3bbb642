"""Destinations: which node each names, and the required kind of that node."""

from __future__ import annotations

from enum import Enum, unique
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.problems import Message, Problem
from pubqueue.model.entities import NodeName
from pubqueue.rules.nodeconfig import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping


@unique
class DestinationKind(Enum):
    """The required kind of the node."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    QUEUE = "queue"
    TOPIC = "topic"
    """A plain node: all its subscribers are notified."""
    EITHER = "either"


PREFIXES: Final = (
    ("/queue/", DestinationKind.QUEUE),
    ("/amq/queue/", DestinationKind.QUEUE),  # RabbitMQ's
    ("./", DestinationKind.QUEUE),  # Curb's
    ("/topic/", DestinationKind.TOPIC),
)
"""The prefixes of destinations. The rest is the node, literally: nothing is decoded, and there are no wildcards."""

USUAL: Final[Mapping[bool, str]] = MappingProxyType({True: "/queue/", False: "/topic/"})
"""The form of a destination, by whether it is a queue."""

OPTIONS: Final[Mapping[DestinationKind, Settings | None]] = MappingProxyType(
    {
        DestinationKind.QUEUE: Settings({"queueing": True}),
        DestinationKind.TOPIC: Settings({"queueing": False}),
        DestinationKind.EITHER: None,
    }
)
"""The publish-options of a SEND: a node of the other kind is refused, and one that is created by a publish is of this kind."""

MAX_KEPT: Final = 1024
"""Destinations that are remembered, of up to a header line each."""


class Destination(Struct, frozen=True):
    """A node, as a client names it."""

    node: NodeName
    kind: DestinationKind
    text: str

    @property
    def is_usual(self) -> bool:
        """Whether it is written in our form; otherwise the item has it as a header."""
        return self.text.startswith(tuple(USUAL.values()))


@lru_cache(maxsize=MAX_KEPT)
def destination_of(text: str) -> Destination | Problem:
    """Return the node in a header `destination`. No other name begins with a slash."""
    prefix, kind = next(
        (row for row in PREFIXES if text.startswith(row[0])), ("", DestinationKind.EITHER)
    )
    name = text[len(prefix) :]
    if not name or (not prefix and name.startswith("/")):
        known = ", ".join(one for one, _ in PREFIXES)
        return Problem(Message.NO_SUCH_KIND, f"a destination begins with {known} or is a name")
    return Destination(NodeName(name), kind, text)


def shown(node: NodeName, *, is_queue: bool) -> str:
    """Return the destination of a node."""
    return USUAL[is_queue] + node
