"""For samples: the moment, and the stored samples of the last hours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.store.listings import Samples
from pubqueue.rules.survey import KeepFacts, SamplesFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.survey import KeepSamples, ReadSamples

MAX_SAMPLES: Final = 10_000
"""The maximum in one answer: fifty nodes for an hour, or one for all the time that is kept."""


def for_keep(context: Context, _request: KeepSamples) -> KeepFacts:
    """Return the moment."""
    return KeepFacts(context.now)


def for_read(context: Context, request: ReadSamples) -> SamplesFacts:
    """Return the requested samples."""
    if not request.by.admin:
        return SamplesFacts((), context.now)
    which = Samples(request.nodes, request.since)
    return SamplesFacts(tuple(context.rows.page(which, None, MAX_SAMPLES)), context.now)
