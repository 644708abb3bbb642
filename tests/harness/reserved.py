"""The scenarios that only the stub can play, each with the reason and what shows it on a real server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reserved:
    """Why a real server cannot play it, and the words in which the attempt fails."""

    why: str
    sign: str


STUB_ONLY: Final = {
    "presence-of-no-known-type": Reserved(
        "the server refuses it; the service never sees it", "<bad-request"
    ),
}
