"""What an item waits for, and what has come for it: kept in the row of the item, and bounded.

A worker that cannot go on holds its item: it is neither ready nor locked until a signal of one of the names comes that it listens to, or
its time is over. Signals are kept with the item whatever its state, so one that comes before the item is held is not lost: the next
hold that listens to it wakes the item at once. What has woken an item, and was shown to its worker, is over with the next hold, so that nothing wakes it
twice; what the worker still needs, the item carries. A signal that was only shown is not over: its worker may have died before it held the item for it.
"""

from __future__ import annotations

from enum import StrEnum, unique
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.joins import Join  # noqa: TC001  # msgspec reads it

MAX_SIGNALS: Final = 64
"""Signals that are kept with an item."""

MAX_KEPT: Final = 65_536
"""Bytes of the ids, names and data of these in total."""

MAX_OF_JOIN: Final = 8_192
"""The same of an item that waits for members: one request may end members of 500 joins, and each of these rows is written for that."""

MAX_DATA: Final = 16_384
"""Bytes of the data of one signal, and of what an item carries, as they are sent."""

MAX_NAMES: Final = 16
"""Names that an item listens to."""

MAX_NAME: Final = 255
"""Bytes of the name, or of the id, of a signal."""


_LONGER: Final = (("&", 4), ("<", 3), (">", 3), ("\r", 4))
"""Characters that are longer as they are sent in XML, and by how much."""


def bytes_of(text: str) -> int:
    """Return the bytes of a text as it is sent, however it is escaped: a delivery has to fit into a stanza with all that has come."""
    return len(text.encode()) + sum(more * text.count(one) for one, more in _LONGER)


@unique
class AtDeadline(StrEnum):
    """What becomes of a held item for which no signal has come in time."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    DELIVER = "deliver"
    DEAD = "dead"
    DISCARD = "discard"


@unique
class Woken(StrEnum):
    """What has woken an item."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    COUNT = "count"
    SIGNAL = "signal"
    TIME = "time"


class Came(Struct, frozen=True, gc=False):
    """A signal that has come: its id, its name, its data, the account that sent it, and when, in milliseconds since 1970."""

    id: str
    name: str
    data: str
    by: str
    at: int

    @property
    def size(self) -> int:
        """The bytes that it counts for."""
        names = self.id, self.name, self.by
        return bytes_of(self.data) + sum(bytes_of(one) + 5 * one.count('"') for one in names)


class Wait(Struct, frozen=True, gc=False):
    """What an item waits for, or waited for, and what has come for it.

    It listens to `signals` since it was held at `since`, or did until it was woken; `then` is what its deadline does. `carry` is what its worker gave it to
    carry on. `came` are the signals that are kept; the first `seen` of these were shown to its worker at the last delivery. `known` are
    the marks of earlier ones, the newest, so that a repetition of these counts once too. `woken` says what woke it last. `join` has the
    members that it waits for too, None if it is no join.
    """

    signals: tuple[str, ...] = ()
    since: int = 0
    then: AtDeadline = AtDeadline.DELIVER
    carry: str = ""
    came: tuple[Came, ...] = ()
    seen: int = 0
    known: tuple[str, ...] = ()
    woken: Woken | None = None
    join: Join | None = None
    holds: int = 0
    """How often it was held, this time too: so a link to answer one wait answers no later one."""
    damaged: bool = False
    """Whether the stored column is not what was written. Nothing else of it is known then."""

    @property
    def size(self) -> int:
        """The bytes that it counts for."""
        return bytes_of(self.carry) + sum(one.size for one in self.came)

    @property
    def is_heard(self) -> bool:
        """Whether a signal has come that it listens to."""
        return any(one.name in self.signals for one in self.came)

    def has(self, signal: str) -> bool:
        """Return whether the signal with this id has come already."""
        return any(one.id == signal for one in self.came) or mark_of(signal) in self.known

    def has_room(self, one: Came) -> bool:
        """Return whether the signal can be kept beside the others."""
        kept = sum(each.size for each in self.came)
        most = MAX_KEPT if self.join is None else MAX_OF_JOIN
        return len(self.came) < MAX_SIGNALS and kept + one.size <= most

    def with_signal(self, one: Came) -> Wait:
        """Return the same with one more signal."""
        return replace(self, came=(*self.came, one))

    def shown(self) -> Wait:
        """Return the same after all that has come was shown to a worker."""
        return self if self.seen == len(self.came) else replace(self, seen=len(self.came))

    def over(self) -> Wait:
        """Return the same without what woke the item, and was shown to its worker: another wait begins. Others stay until it is held for them."""
        heard = self.signals if self.woken is Woken.SIGNAL else ()
        over = {one.id for one in self.came[: self.seen] if one.name in heard}
        left = tuple([one for one in self.came if one.id not in over])
        marks = tuple([mark_of(one.id) for one in self.came if one.id in over])
        known = (*self.known, *marks)[-MAX_SIGNALS:]
        join = None if self.woken is Woken.COUNT else self.join
        return Wait(carry=self.carry, came=left, known=known, join=join, holds=self.holds)


NO_WAIT: Final = Wait()


def size_of(wait: Wait | None) -> int:
    """Return the bytes that it counts for, 0 if there is none."""
    return 0 if wait is None else wait.size


def mark_of(signal: str) -> str:
    """Return what stands for the id of a signal after the signal is gone."""
    return blake2b(signal.encode(), digest_size=8).hexdigest()


DAMAGED: Final = Wait(damaged=True)
"""Stands for a stored column that is not what was written."""
