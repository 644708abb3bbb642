"""Limits wrong attempts: each peer waits longer and longer, and earlier if there are many wrong attempts in total.

A peer is counted by user name, so a program with a wrong password does not lock out the others on its host. A peer with wrong
attempts under many names waits under all names. Correct credentials from another peer are always accepted, so an attacker
cannot lock users out.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

FREE: Final = 3
"""Wrong attempts of a peer under one name without a wait: people mistype."""

FREE_NAMES: Final = 10
"""Names with wrong attempts of a peer before it waits under every name."""

MAX_WAIT: Final = 60.0
"""The maximum seconds that a peer waits after a wrong attempt."""

FORGOTTEN: Final = 900.0
"""Seconds without a wrong attempt after which a count is reset."""

MANY: Final = 60
"""Wrong attempts of all peers in a minute; beyond this, each wrong attempt causes the longest wait at once."""

MINUTE: Final = 60.0

MAX_KNOWN: Final = 10_000
"""The maximum number of remembered pairs of peer and name, and of peers; the one with the oldest wrong attempt is dropped."""

MAX_NAME_LENGTH: Final = 65
"""The characters of a name that are compared: no user has a longer name."""


class Wrong(Struct):
    """The record of a peer: its wrong attempts, the time of the last one, and until when it waits."""

    count: int
    last: float
    until: float


class Count:
    """Counts wrong attempts by key; the first `free` ones cause no wait."""

    def __init__(self, clock: Callable[[], float], free: int) -> None:
        self._clock, self._free = clock, free
        self._known: OrderedDict[str, Wrong] = OrderedDict()
        self._minute = 0.0
        self._in_all = 0

    def wait(self, key: str) -> float:
        """Return the seconds for which no attempt of this key is checked; 0: it may try."""
        known = self._known.get(key)
        return 0.0 if known is None else max(0.0, known.until - self._clock())

    def was_wrong(self, key: str) -> int:
        """Count a wrong attempt; return how many there were in a row."""
        now = self._clock()
        if now - self._minute >= MINUTE:
            self._minute, self._in_all = now, 0
        self._in_all += 1
        known = self._known.get(key)
        count = 1 if known is None or now - known.last > FORGOTTEN else known.count + 1
        self._known[key] = Wrong(count, now, now + self._cost(count))
        self._known.move_to_end(key)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return count

    def _cost(self, count: int) -> float:
        """Return the wait after so many wrong attempts in a row, in seconds."""
        if self._in_all > MANY:
            return MAX_WAIT
        return 0.0 if count <= self._free else min(MAX_WAIT, 2.0 ** min(count - self._free - 1, 10))


class Attempts:
    """Counts wrong attempts. `clock` returns seconds and is monotonic. A token has no name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._names = Count(clock, FREE)
        self._peers = Count(clock, FREE_NAMES)

    def wait(self, peer: str, name: str = "") -> float:
        """Return the seconds for which no attempt of this peer under this name is checked; 0: it may try."""
        key = _of(peer)
        return max(self._peers.wait(key), self._names.wait(_named(key, name)))

    def was_wrong(self, peer: str, name: str = "") -> None:
        """Count a wrong attempt."""
        key = _of(peer)
        if self._names.was_wrong(_named(key, name)) == 1:
            self._peers.was_wrong(key)


def _named(key: str, name: str) -> str:
    return f"{key} {name[:MAX_NAME_LENGTH]}"


@lru_cache(maxsize=4096)
def _of(address: str) -> str:
    """Return the key of an address. A host usually has a whole /64 network of IPv6, so its addresses count together."""
    try:
        read = ip_address(address)
    except ValueError:
        return address
    if isinstance(read, IPv6Address):
        if read.ipv4_mapped is not None:
            return str(read.ipv4_mapped)
        return str(int(read) >> 64)
    return str(read)
