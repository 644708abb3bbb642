"""Joins: items that wait until other items are done, their members. What is kept of it in the rows of both.

A join has a number of how many members are still to come, never a list; each member has the number of its join. So a join may have a
million members, in any queues of the service, and one that ends changes two rows. What is decided with these is in `rules/joins.py`.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Final
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

MAX_MEMBERS: Final = 1_000_000
"""Members of one join, those that are done included."""


@unique
class JoinDead(StrEnum):
    """What a dead member means for its join."""

    __hash__ = str.__hash__  # an enumeration's own is a call in Python

    WAIT = "wait"
    COUNT = "count"
    FAIL = "fail"


class Tally(Struct, frozen=True, gc=False):
    """What has happened to members of a join: how many were added, are gone, have died, and were redriven.

    A dead one that is gone is in `gone` and in `revived`: it is not dead any more.
    """

    added: int = 0
    gone: int = 0
    died: int = 0
    revived: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Return what both say together."""
        return Tally(
            self.added + other.added,
            self.gone + other.gone,
            self.died + other.died,
            self.revived + other.revived,
        )


NOTHING: Final = Tally()


class Join(Struct, frozen=True, gc=False):
    """The members of a join: how many are still to come, how many of these are dead, and how many there were in all.

    While it `is_open`, members may be added, and it does not wake.
    """

    to_come: int = 0
    dead: int = 0
    total: int = 0
    is_open: bool = True

    def after(self, tally: Tally) -> Join:
        """Return the same after that has happened to its members."""
        return Join(
            self.to_come + tally.added - tally.gone,
            self.dead + tally.died - tally.revived,
            self.total + tally.added,
            self.is_open,
        )

    def closed(self) -> Join:
        """Return the same without room for further members."""
        return replace(self, is_open=False)

    def is_complete(self, dead: JoinDead) -> bool:
        """Return whether all members have come, as far as dead ones have to."""
        awaited = self.to_come - self.dead if dead is JoinDead.COUNT else self.to_come
        return not self.is_open and awaited <= 0


# The column of a member: the number of its join, with 16 bits of a checksum over both numbers. A flipped bit would have another join
# wake too early, and this one never.

BITS: Final = 16
DAMAGED: Final = -(1 << 62)
"""Stands for a join in a stored column that is not what was written."""


def membership(join: int, member: int) -> int:
    """Return the column of a member: both are numbers of items."""
    if join < 0:
        return 0
    return join << BITS | crc32(b"%d %d" % (join, member)) & 0xFFFF


def member_of(column: int, member: int) -> int:
    """Return the number of the join in such a column, `DAMAGED` if it is not what was written."""
    join = column >> BITS
    return join if join > 0 and membership(join, member) == column else DAMAGED


def members_of(join: int) -> tuple[int, int]:
    """Return between which columns, the second excluded, those of all its members are."""
    return join << BITS, join + 1 << BITS
