"""The request of a SUBSCRIBE: how messages are acknowledged, and how many may be in flight."""

from __future__ import annotations

from enum import StrEnum, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.codec import V10
from pubqueue.faces.stomp.destinations import destination_of
from pubqueue.faces.stomp.numbers import BadNumberError, count
from pubqueue.faces.stomp.problems import Message, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.stomp.codec import Version
    from pubqueue.faces.stomp.destinations import Destination

MAX_WINDOW: Final = 10**9
"""Requests the maximum of the queue: larger values are reduced to it."""


@unique
class Mode(StrEnum):
    """The header `ack`."""

    AUTO = "auto"
    """A message is done when it has been sent."""
    CLIENT = "client"
    """An ACK applies to all messages up to that one."""
    INDIVIDUAL = "client-individual"


WINDOWS: Final[Mapping[Mode, int]] = MappingProxyType(
    {Mode.AUTO: 100, Mode.CLIENT: 100, Mode.INDIVIDUAL: 1}
)
"""How many messages are in flight by default. With one, a client that acknowledges every tenth message would wait without end."""

_WINDOW: Final = ("prefetch-count", "activemq.prefetchSize")
"""RabbitMQ's and ActiveMQ's words."""

_BYTES: Final = "consumer-window-size"
"""Artemis' word, in bytes; 0 there means one by one."""


class Wanted(Struct, frozen=True):
    """A requested subscription."""

    id: str
    destination: Destination
    mode: Mode
    window: int


def wanted(headers: Mapping[str, str], version: Version) -> Wanted | Problem:
    """Return the request of a SUBSCRIBE."""
    if "selector" in headers:
        return Problem(
            Message.NOT_SUPPORTED, "there are no selectors: what would filter is a queue of its own"
        )
    to = destination_of(headers["destination"])
    if isinstance(to, Problem):
        return to
    wanted = headers.get("ack", Mode.AUTO)
    if wanted not in version.modes:
        return Problem(Message.BAD_HEADER, f"ack has to be {', '.join(sorted(version.modes))}")
    mode = Mode(wanted)
    window = window_of(headers, mode)
    if isinstance(window, Problem):
        return window
    return Wanted(id_of(headers, version) or to.text, to, mode, window)


def id_of(headers: Mapping[str, str], version: Version) -> str | None:
    """Return the id of a subscription; in 1.0 it may be missing, and is the destination then."""
    found = headers.get("id")
    return headers.get("destination") if found is None and version is V10 else found


def window_of(headers: Mapping[str, str], mode: Mode) -> int | Problem:
    """Return how many messages may be in flight; 0 means the maximum."""
    for name in (*_WINDOW, _BYTES):
        if name not in headers:
            continue
        try:
            asked = count(headers[name])
        except BadNumberError as problem:
            return Problem(Message.BAD_HEADER, f"{name} has to be {problem}")
        if name == _BYTES:
            one = Problem(
                Message.NOT_SUPPORTED, f"{name}: a window is counted in messages; use {_WINDOW[0]}"
            )
            return one if asked else 1
        return min(asked, MAX_WINDOW) or MAX_WINDOW
    return WINDOWS[mode]
