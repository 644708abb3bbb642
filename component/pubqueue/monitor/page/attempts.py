"""Wrong tokens are slowed down: each address waits for longer and longer, and sooner where many are wrong in all.

A correct token from another address is always accepted, so an attacker cannot lock the operators out.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

FREE: Final = 3
"""Wrong tokens of an address that cost nothing: people mistype."""

MAX_WAIT: Final = 60.0
"""Seconds that an address waits at most after a wrong token."""

FORGOTTEN: Final = 900.0
"""Seconds without a wrong token after which the count of an address is reset."""

MANY: Final = 60
"""Wrong tokens of all addresses in a minute; beyond them each costs its address the longest wait at once."""

MINUTE: Final = 60.0

MAX_ADDRESSES: Final = 10_000
"""Addresses that are remembered; beyond them the one goes that was wrong the longest time ago."""


class Wrong(Struct):
    """What is known of an address: how often it was wrong, when last, and until when it waits."""

    count: int
    last: float
    until: float


class Attempts:
    """Counts wrong tokens. `clock` returns seconds, and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[str, Wrong] = OrderedDict()
        self._minute = 0.0
        self._in_all = 0

    def wait(self, address: str) -> float:
        """Return the seconds for which no token of this address is looked at; 0: it may try."""
        known = self._known.get(_of(address))
        return 0.0 if known is None else max(0.0, known.until - self._clock())

    def was_wrong(self, address: str) -> None:
        """Take note of a wrong token."""
        now, key = self._clock(), _of(address)
        if now - self._minute >= MINUTE:
            self._minute, self._in_all = now, 0
        self._in_all += 1
        known = self._known.get(key)
        before = 0 if known is None or now - known.last > FORGOTTEN else known.count
        self._known[key] = Wrong(before + 1, now, now + self._cost(before + 1))
        self._known.move_to_end(key)
        if len(self._known) > MAX_ADDRESSES:
            self._known.popitem(last=False)

    def _cost(self, count: int) -> float:
        """Return how long the address waits after its so-and-so-manieth wrong token in a row."""
        if self._in_all > MANY:
            return MAX_WAIT
        return 0.0 if count <= FREE else min(MAX_WAIT, 2.0 ** min(count - FREE - 1, 10))


def _of(address: str) -> str:
    """Return the key of an address. A network gives one host a whole /64 of IPv6, so they count together."""
    try:
        read = ip_address(address)
    except ValueError:
        return address
    if isinstance(read, IPv6Address):
        if read.ipv4_mapped is not None:
            return str(read.ipv4_mapped)
        return str(int(read) >> 64)
    return str(read)
