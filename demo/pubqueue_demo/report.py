"""Reports of the demo's processes to its main process, as lines of JSON on stdout.

Times are seconds since 1970, by this machine's clock. A worker sends `Result` before it retracts the item, so that work
is not counted as lost if the worker dies afterwards.
"""

from __future__ import annotations

import sys
from typing import Final

import msgspec


class Report(msgspec.Struct, frozen=True, tag_field="event", tag=str.lower):
    """One line."""


class Ready(Report, frozen=True):
    """A worker is connected, subscribed and available."""


class Delivered(Report, frozen=True):
    """A worker holds the item; `published` is when the service stored it."""

    id: str
    attempt: int
    published: float
    at: float


class Result(Report, frozen=True):
    """The work is done, the item not yet retracted; `minutes` is the time that the passengers won."""

    id: str
    minutes: int
    at: float


class Done(Report, frozen=True):
    """The service has confirmed the retract."""

    id: str
    at: float


class Unlocked(Report, frozen=True):
    """The worker released the item."""

    id: str
    at: float


class Lost(Report, frozen=True):
    """The worker did the work, but its lock was lost when it retracted: another worker has the item."""

    id: str
    at: float


class ToBeKilled(Report, frozen=True):
    """The worker holds items and waits to be killed."""


class Stalling(Report, frozen=True):
    """The worker hangs for some seconds, with the items that it holds."""

    seconds: float


class Selected(Report, frozen=True):
    """The Spark job has counted its rows and starts to write."""

    rows: int
    table: int


class Published(Report, frozen=True):
    """The Spark job has written these items, and all are confirmed."""

    ids: list[str]


BotLine = (
    Ready
    | Delivered
    | Result
    | Done
    | Unlocked
    | Lost
    | ToBeKilled
    | Stalling
    | Selected
    | Published
)

_decoder: Final[msgspec.json.Decoder[BotLine]] = msgspec.json.Decoder(BotLine)


def emit(report: Report) -> None:
    """Write one line and flush it, so that a killed process has sent all of its reports."""
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    sys.stdout.flush()


def read(line: str) -> BotLine:
    """Parse one line; raise msgspec.DecodeError if it is not a report."""
    return _decoder.decode(line)
