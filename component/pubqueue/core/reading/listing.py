"""Which part of a long list is requested, and how the part that is sent is described (as in XEP-0059).

A list is always sent in parts: no answer grows with the size of the store.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_ENTRIES: Final = 1_000
"""Maximum number of entries in one answer; a face with smaller answers cuts further."""

MAX_BYTES: Final = 1 << 20
"""Maximum bytes of payload in one answer, which contains one item however large. A face may set a lower limit."""


class Page(Struct, frozen=True, gc=False):
    """Up to `most` entries after the entry `after`; with `most` 0 only their number.

    With `before` they are the last ones before that entry, or of all if it is empty.

    An entry is identified by its name: an item by its id, a node by its name, an account by its
    JID.
    """

    after: str | None = None
    most: int | None = None
    before: str | None = None


class Part(Struct, frozen=True, gc=False):
    """Which part of a list is sent: whether `more` follow, how many there are in all, whether it is the beginning.

    `total` may be approximate, and is None if counting would cost too much. `asked` means that the
    request was for a part, so that the answer has to identify it. `backward`: it was read from its
    end, so that a face without room for all of it sends the last entries.
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
    """Return the description of a part that begins where `page` says."""
    begins = page is None or (page.after is None and not page.before)
    return Part(more, total, begins, asked=page is not None)
