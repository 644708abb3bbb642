"""Trim the event log: by age and by size, in slices, so that no batch takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.changes import ForgetEvents
from pubqueue.core.decision import Decision
from pubqueue.core.reading.pages import Trimmed

if TYPE_CHECKING:
    from pubqueue.core.model import Millis

SLICE: Final = 5_000
"""Up to how many events one batch forgets."""


class Trim(Struct, frozen=True, gc=False):
    """Forget events that are older than `kept_for`, and those beyond the newest `kept`."""

    kept_for: Millis
    kept: int


class TrimFacts(Struct, frozen=True, gc=False):
    """The ends of the log, and the last of its oldest SLICE events that is too old, if one is."""

    oldest: int
    newest: int
    aged: int | None


def trim(request: Trim, facts: TrimFacts) -> Decision:
    """Decide which events are removed. Numbers have no gaps, so the size of the log is a difference."""
    wanted = max(facts.aged or 0, facts.newest - request.kept)
    through = min(wanted, facts.oldest + SLICE - 1, facts.newest - 1)
    if through < facts.oldest:
        return Decision(Trimmed(more=False))
    return Decision(Trimmed(more=through - facts.oldest + 1 == SLICE), (ForgetEvents(through),))
