"""Which part of a long list is asked for, and what is told of the part that is shown (as XEP-0059 has it).

A list is shown in parts whether or not anybody asks for that: no answer grows with what the service keeps.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_ENTRIES: Final = 1_000
"""Entries in one answer at most, whatever is asked for; a face whose answers are small cuts further."""

MAX_BYTES: Final = 1 << 20
"""Bytes of payload in one answer at most; one item is in it however large. A face says how much less it can take."""


class Page(Struct, frozen=True, gc=False):
    """So many entries at most behind the entry `after`; with `most` 0 nothing but their number.

    With `before` they are the last ones in front of that entry, or of all if it is empty.

    An entry is known by what it is called: an item by its id, a node by its name, somebody by the JID.
    """

    after: str | None = None
    most: int | None = None
    before: str | None = None


class Part(Struct, frozen=True, gc=False):
    """What part of a list is shown: whether `more` is behind it, how much there is in all, whether it is the beginning.

    `total` may be about right, and is None where counting would cost too much. `asked` says that somebody asked for
    a part, and so expects to be told which one this is. `backward`: it was read from its end, so that a face that has
    no room for all of it shows the last entries.
    """

    more: bool = False
    total: int | None = None
    begins: bool = True
    asked: bool = False
    backward: bool = False


WHOLE: Final = Part()


def room_of(page: Page | None, most: int = MAX_ENTRIES) -> int:
    """Return how many entries the answer may have."""
    return most if page is None or page.most is None else min(page.most, most)


def part_of(page: Page | None, *, more: bool, total: int | None) -> Part:
    """Return what is told of a part that begins where `page` says."""
    begins = page is None or (page.after is None and not page.before)
    return Part(more, total, begins, asked=page is not None)
