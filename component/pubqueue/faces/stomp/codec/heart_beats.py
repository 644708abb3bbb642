"""Heart-beats: what each side offers and wants, and the agreed intervals (1.1 and 1.2, "Heart-beating")."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

BEAT: Final = b"\n"
"""The bytes that an idle side sends."""

_FORM: Final = re.compile(r"([0-9]{1,9}),([0-9]{1,9})", re.ASCII)


class HeartBeats(Struct, frozen=True):
    """The values of one side, in milliseconds; 0: none."""

    sends: int = 0
    """The minimum interval at which it can send."""
    wants: int = 0
    """The interval at which it wants to receive."""

    @property
    def shown(self) -> str:
        """The value of the header `heart-beat`."""
        return f"{self.sends},{self.wants}"

    def agreed_with(self, other: HeartBeats) -> HeartBeats:
        """Return the intervals at which this side has to send, and can expect to receive: the larger of both values, 0 if a side has 0."""
        return HeartBeats(_agreed(self.sends, other.wants), _agreed(self.wants, other.sends))


def heart_beats_of(value: str | None) -> HeartBeats | None:
    """Return the values of a header `heart-beat`; a missing one is 0,0. None: it is invalid."""
    if value is None:
        return HeartBeats()
    found = _FORM.fullmatch(value)
    return found and HeartBeats(int(found[1]), int(found[2]))


def _agreed(one: int, other: int) -> int:
    return max(one, other) if one and other else 0
