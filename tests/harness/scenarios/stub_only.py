"""The scenarios that only the stub can play, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reserved:
    """Why it cannot be played behind a real server, and the words in which the attempt fails."""

    why: str
    sign: str


STUB_ONLY: Final = {
    "presence-asked-for": Reserved(
        "the server keeps the roster: it takes `subscribed` for itself and sends pushes of its own",
        "fan receives",
    ),
    "presence-of-no-known-type": Reserved(
        "the server refuses it; the service never sees it", "<bad-request"
    ),
}
