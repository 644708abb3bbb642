"""The nouns of schedules: what is published when, its state, and the replies about it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct

from pubqueue.model.entities import Draft, Headers, ItemId, Jid, Millis, NodeName, seconds


@unique
class Missed(StrEnum):
    """What happens to times that were missed: no process was running, or the node refused the item."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    ONCE = "once"
    """One item for all of them, under the last one."""
    SKIP = "skip"
    """None; a time counts as missed from `ON_TIME` on."""
    ALL = "all"
    """One item for each, the oldest first, of the last `MAX_MISSED`."""


ON_TIME: Final = seconds(60)
"""How late a time still counts as met."""

MAX_MISSED: Final = 100
"""Up to how many missed times are made up for; of more the oldest are left out."""

MAX_SCHEDULES: Final = 1_000
"""Schedules of one service."""

MAX_NAME_LENGTH: Final = 255
"""Bytes of a schedule's name."""


@unique
class Source(StrEnum):
    """The origin of a schedule, which decides where it is changed and ended."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    FILE = "file"
    COMMAND = "command"


class Definition(Struct, frozen=True, gc=False):
    """What to publish to which node, at the times of a cron line of five fields in a time zone (an IANA name).

    `type` is the namespace of the payload, and `group` the group of its items, empty for none. One that is not
    `enabled` publishes nothing, and misses nothing.
    """

    name: str
    cron: str
    zone: str
    node: NodeName
    payload: bytes
    type: str = ""
    priority: int = 0
    ttl: Millis | None = None
    headers: Headers = ()
    missed: Missed = Missed.ONCE
    enabled: bool = True
    group: str = ""

    def times_as(self, other: Definition) -> bool:
        """Return whether both have the same times."""
        return (self.cron, self.zone, self.enabled) == (other.cron, other.zone, other.enabled)


class Schedule(Struct, frozen=True, gc=False):
    """A schedule as stored.

    All its times up to `fired_through` are settled; that only rises, whatever the clock does. `due`
    is when its next turn is: its next time, or the next try after a refusal; None if there is none.
    `last` is the time that was published last. After a refusal `error` has the reason, until a
    publish succeeds, and `tries` is the number of refusals in a row. `paused` is set by commands;
    `revision` rises with every change.
    """

    definition: Definition
    source: Source
    by: Jid
    """The administrator that last changed it, the service itself for those of the file."""
    fired_through: Millis
    due: Millis | None = None
    last: Millis | None = None
    error: str = ""
    tries: int = 0
    paused: bool = False
    revision: int = 1
    damaged: bool = False
    """Whether the stored row is not what was written. It is paused then, and its definition is not known."""

    @property
    def name(self) -> str:
        """Its name, unique in the service."""
        return self.definition.name

    @property
    def runs(self) -> bool:
        """Whether it publishes at its times."""
        return self.definition.enabled and not self.paused


class Fired(Struct, frozen=True, gc=False):
    """The result of a schedule's turn: the id that was published, if any; `error` is the node's reason for a refusal.

    `first` is the first refusal in a row. `skipped` means that times were missed and are not made
    up for.
    """

    name: str
    id: ItemId | None = None
    error: str = ""
    first: bool = False
    skipped: bool = False


class TimesWanted(Struct, frozen=True, gc=False):
    """The times of a schedule have to be computed first: then its turn has to be requested again, with `Times`.

    Needed are those of the line later than `after`, which are settled, and not later than `until`, the service's time.
    """

    name: str
    cron: str
    zone: str
    after: Millis
    until: Millis
    revision: int


class Times(Struct, frozen=True, gc=False):
    """The times of a schedule, as of `revision`.

    `pending` are the last of its times that have come and are not settled, the oldest first;
    `earlier` means that there are others before them. `following` is its first time after all that
    have come. With a `fault` nothing could be calculated.
    """

    revision: int
    pending: tuple[Millis, ...] = ()
    earlier: bool = False
    following: Millis | None = None
    fault: str = ""


class SchedulePage(Struct, frozen=True, gc=False):
    """Schedules by name, as of `now`; `more` follow."""

    now: Millis
    schedules: tuple[Schedule, ...]
    more: bool = False


class SchedulesDeclared(Struct, frozen=True, gc=False):
    """The result of replacing the schedules of the file: the names of those that are new, changed, and ended."""

    made: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


Reply = Fired | TimesWanted | SchedulePage | SchedulesDeclared


def draft_of(definition: Definition, moment: Millis) -> Draft:
    """Return the item for a time. Its id is the name and the time, so that one time creates no second item."""
    return Draft(
        id=ItemId(f"{definition.name}@{stamp(moment)}"),
        payload=definition.payload,
        priority=definition.priority,
        ttl=definition.ttl,
        headers=definition.headers,
        type=definition.type,
        group=definition.group,
    )


def stamp(moment: Millis) -> str:
    """Return a moment in UTC, with milliseconds where it has any: 2026-11-22T03:00:00Z (XEP-0082)."""
    whole, part = divmod(moment, 1000)
    text = f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}"
    return f"{text}.{part:03}Z" if part else f"{text}Z"
