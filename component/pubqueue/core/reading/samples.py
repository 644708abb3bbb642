"""Samples: the state and the events of a queue, minute by minute over the last hours, for plots.

A node has a sample of a minute only if something happened there in that minute; in all others its
state did not change. Each process adds its own events, and replaces the levels: so several
processes on one store make one sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.changes import NoteSamples
from pubqueue.core.decision import Decision, Done, Refusal, refuse
from pubqueue.core.model import Millis
from pubqueue.core.reading.sampled import KEPT, SamplePage, slot_of

if TYPE_CHECKING:
    from pubqueue.core.model import NodeName, Principal
    from pubqueue.core.reading.sampled import Sample

MAX_SAMPLED: Final = 500
"""Up to how many nodes have a sample of a minute from one process."""

CLEARED: Final = 5_000
"""Up to how many old samples are deleted at once: more than several processes add meanwhile."""

FOR_ADMINS: Final = "only administrators of the service may read samples"


class KeepSamples(Struct, frozen=True, gc=False):
    """Store the samples of this process, up to one for a node and a minute, and drop old ones."""

    by: Principal
    samples: tuple[Sample, ...]


class KeepFacts(Struct, frozen=True, gc=False):
    """The moment."""

    now: Millis


class ReadSamples(Struct, frozen=True, gc=False):
    """Request the samples of these nodes from a moment on."""

    by: Principal
    nodes: tuple[NodeName, ...]
    since: Millis


class SamplesFacts(Struct, frozen=True, gc=False):
    """The existing samples, by node and time."""

    samples: tuple[Sample, ...]
    now: Millis


def keep_samples(request: KeepSamples, facts: KeepFacts) -> Decision:
    """Decide whether the samples are kept."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR_ADMINS)
    before = Millis(slot_of(facts.now) - KEPT)
    return Decision(Done(), (NoteSamples(request.samples, before, CLEARED),))


def read_samples(request: ReadSamples, facts: SamplesFacts) -> Decision:
    """Decide whether the principal may see samples."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR_ADMINS)
    return Decision(SamplePage(facts.samples, facts.now))
