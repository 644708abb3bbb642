"""Which of several services an item goes to. Pure: the list of services and a key in, an address out.

The key of an item is its group, or its id if it has no group. The service is chosen by rendezvous hashing, which any
language can repeat: for each service, SHA-256 of its address, a zero byte and the key, all in UTF-8; the first eight
bytes of the digest are a number, the most significant byte first. The service with the highest number gets the item; of
equal numbers, that of the smaller address, byte by byte. So one service more takes its share from all others, and no
other key moves.

A list may mark a service:

- `queue-b.example.org=draining` gets no new items. Workers still take from it, until it is empty.
- `queue-c.example.org=joining` gets only items that nothing holds to a place: without a group, and with an id that the
  library has made. Groups and given ids go where they went without it, so publishers with the list before and with
  this one agree about each of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

DRAINING: Final = "draining"
JOINING: Final = "joining"
MARKS: Final = (DRAINING, JOINING)
MAX_SERVICES: Final = 64
"""The most services in a list."""


@dataclass(frozen=True)
class Services:
    """The services of a publisher or worker, in the order of their list; at least one takes groups and given ids."""

    names: tuple[str, ...]
    draining: frozenset[str] = frozenset()
    joining: frozenset[str] = frozenset()

    @property
    def is_one(self) -> bool:
        """Whether there is no choice: there is a single service."""
        return len(self.names) == 1

    @property
    def first(self) -> str:
        """The first of the list."""
        return self.names[0]

    @cached_property
    def settled(self) -> tuple[str, ...]:
        """Those that groups and given ids go to."""
        return tuple(one for one in self.names if one not in self.draining | self.joining)

    @cached_property
    def taking(self) -> tuple[str, ...]:
        """Those that get new items at all."""
        return tuple(one for one in self.names if one not in self.draining)

    def place(self, key: str | bytes) -> str:
        """Return the service of a group, or of an id that the author of an item has given."""
        return self._highest(self.settled, key)

    def place_of_new(self, key: str | bytes) -> str:
        """Return the service of an item that nothing holds to a place, by the id that was made for it."""
        return self._highest(self.taking, key)

    @staticmethod
    def _highest(among: Sequence[str], key: str | bytes) -> str:
        if len(among) == 1:
            return among[0]
        data = key.encode() if isinstance(key, str) else key
        scores = [(score(one, data), one) for one in among]
        highest = max(scores)[0]
        return min((one for found, one in scores if found == highest), key=str.encode)

    def __str__(self) -> str:
        marks = dict.fromkeys(self.draining, DRAINING) | dict.fromkeys(self.joining, JOINING)
        return ", ".join(f"{one}={marks[one]}" if one in marks else one for one in self.names)


def score(service: str, key: bytes) -> bytes:
    """Return the number by which a service is compared with others for a key, as eight bytes."""
    one = _begun(service).copy()
    one.update(key)
    return one.digest()[:8]


@lru_cache(maxsize=4 * MAX_SERVICES)
def _begun(service: str) -> hashlib._Hash:
    return hashlib.sha256(service.encode() + b"\0")


def read_services(
    texts: Iterable[str], address: Callable[[str], str] = lambda text: text
) -> Services:
    """Read a list: addresses, each perhaps with a mark, `queue-b.example.org=draining`; a text may have several, with commas.

    `address` returns an address in its one form. Raises ValueError, with a sentence, for a list that cannot be used.
    """
    names: list[str] = []
    marked: dict[str, set[str]] = {mark: set() for mark in MARKS}
    entries = [entry.strip() for text in texts for entry in text.split(",")]
    for entry in entries:
        found, _, mark = entry.rpartition("=")
        if found and mark not in MARKS:
            raise ValueError(
                f"The service {entry!r} has a mark that is neither {DRAINING} nor {JOINING}."
            )
        given = found or mark
        if not given:
            raise ValueError("A service of the list is empty.")
        name = address(given)
        if name in names:
            raise ValueError(f"The service {name} is in the list more than once.")
        names.append(name)
        if found:
            marked[mark].add(name)
    if len(names) > MAX_SERVICES:
        raise ValueError(f"The list has {len(names)} services; it takes up to {MAX_SERVICES}.")
    services = Services(tuple(names), frozenset(marked[DRAINING]), frozenset(marked[JOINING]))
    if not services.settled:
        raise ValueError(
            f"No service of the list takes groups and given ids: each is {DRAINING} or {JOINING}."
            if names
            else "The list of services is empty."
        )
    return services
