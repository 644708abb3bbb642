"""All queues at once, and samples of them."""

from __future__ import annotations

import math
from enum import StrEnum, unique
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import NoteSamples
from pubqueue.model.decision import Decision, Done, Read, Refusal, Refused, Request, refuse
from pubqueue.model.entities import Millis
from pubqueue.model.records import KEPT, SamplePage, slot_of
from pubqueue.model.replies import NodePage, Survey, SurveyRow, Totals
from pubqueue.rules.read import ReadFacts, ReadNodes, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.entities import NodeName, Principal
    from pubqueue.model.records import Sample
    from pubqueue.model.replies import NodeEntry


# All queues at once: their problems, the totals, and the first ones in the requested order.
#
# Nodes are read a slice at a time, with other readers in between, and only totals and the rows of one page are kept. So an answer
# is bounded, however many nodes there are, and its cost is spread.

OLD: Final = 900_000
"""Milliseconds that an item may wait before it counts as a problem, as in the alerts."""

PAGE: Final = 50
"""Rows of one answer."""

MAX_NODES: Final = 20_000
"""Nodes that are looked at for one answer."""


@unique
class Problem(StrEnum):
    """A problem for an operator, the worst first."""

    NO_WORKERS = "no workers"
    """Items wait, and no worker is available to take one."""
    TOO_LARGE = "items too large"
    """Items wait that no protocol of an available worker can carry."""
    FAILING = "failing"
    """Recently more items failed than were done, as far as this process knows."""
    OLD = "oldest waits too long"
    DEAD = "dead items"
    PAUSED = "paused"
    CLOSED = "closed to publishers"


PROBLEMS: Final = tuple(Problem)

STATES: Final = {problem.name.lower().replace("_", "-"): problem for problem in PROBLEMS}
"""The words by which queues with a problem are selected."""


@unique
class Sort(StrEnum):
    """The order of the rows."""

    PROBLEMS = "problems"
    NAME = "name"
    WAITING = "waiting"
    IN_FLIGHT = "in-flight"
    DELAYED = "delayed"
    DEAD = "dead"
    OLDEST = "oldest"
    RATE = "rate"
    SUBSCRIBERS = "subscribers"
    ITEMS = "items"


# fmt: off
_KEYS: Final[dict[Sort, Callable[[SurveyRow], float]]] = {
    Sort.PROBLEMS:    lambda row: -_weight(row.problems),
    Sort.NAME:        lambda _row: 0,
    Sort.WAITING:     lambda row: -row.entry.queued,
    Sort.IN_FLIGHT:   lambda row: -row.entry.locked,
    Sort.DELAYED:     lambda row: -row.entry.delayed,
    Sort.DEAD:        lambda row: -row.entry.dead,
    Sort.OLDEST:      lambda row: math.inf if row.entry.oldest is None else row.entry.oldest,
    Sort.RATE:        lambda row: -row.entry.rate,
    Sort.SUBSCRIBERS: lambda row: -row.entry.node.subscriptions,
    Sort.ITEMS:       lambda row: -row.entry.node.items,
}
# fmt: on

Place = tuple[float, str]
"""The place of a row: the number that it is sorted by, and its name."""


class ReadSurvey(Read, frozen=True, gc=False):
    """Request the queues after the place `after`, or with `plain` the plain nodes, among those that the principal manages.

    `problem`: only those that have it; the totals are those of all.
    `at` is the slice to read next, `known` the result of the slices before, of `looked` nodes.
    """

    sort: Sort = Sort.PROBLEMS
    problem: Problem | None = None
    plain: bool = False
    containing: str = ""
    after: Place | None = None
    most: int | None = None
    at: ReadNodes | None = None
    known: Survey | None = None
    looked: int = 0


def slice_of(request: ReadSurvey) -> ReadNodes:
    """Return the nodes to read next."""
    if request.at is not None:
        return request.at
    return ReadNodes(request.by, managed=True, containing=request.containing)


def survey(request: ReadSurvey, facts: ReadFacts) -> Decision:
    """Add a slice of nodes, and answer after the last one."""
    nodes = slice_of(request)
    decided = read(nodes, facts)
    if isinstance(decided.reply, Refused):
        return decided
    if isinstance(decided.then, ReadNodes):
        return Decision(Done(), then=replace(request, at=decided.then))
    page = decided.reply
    assert isinstance(page, NodePage)
    known, looked = _with(request, page), request.looked + len(page.entries)
    if page.more and looked < MAX_NODES:
        at = replace(nodes, after=page.through, counted=None)
        return Decision(Done(), then=replace(request, at=at, known=known, looked=looked))
    room = _room(request)
    more = len(known.rows) > room
    rows = known.rows[:room]
    return Decision(replace(known, rows=rows, more=more, whole=not page.more, now=page.now))


def place_of(row: SurveyRow, sort: Sort) -> Place:
    """Return the place of a row."""
    return _KEYS[sort](row), row.entry.node.name


def problems_of(entry: NodeEntry, now: Millis) -> tuple[Problem, ...]:
    """Return the problems of a queue, the worst first. That a paused one does not progress is intended."""
    config = entry.node.config
    takers = entry.node.subscriptions and (entry.window_free or entry.locked)
    runs = not config.paused
    found = {
        Problem.NO_WORKERS: runs and entry.queued > 0 and not takers,
        Problem.TOO_LARGE: runs and entry.too_large > 0,
        Problem.FAILING: entry.failing > entry.rate,
        Problem.OLD: runs and entry.oldest is not None and now - entry.oldest > OLD,
        Problem.DEAD: entry.dead > 0,
        Problem.PAUSED: config.paused,
        Problem.CLOSED: config.publish_paused,
    }
    return tuple(one for one in PROBLEMS if found[one])


def _weight(problems: tuple[str, ...]) -> int:
    """Return a number that is higher for a worse problem than for all less bad ones together."""
    return sum(1 << (len(PROBLEMS) - at) for at, one in enumerate(PROBLEMS) if one in problems)


def _room(request: ReadSurvey) -> int:
    return PAGE if request.most is None else max(1, min(request.most, PAGE))


def _with(request: ReadSurvey, page: NodePage) -> Survey:
    """Return the result including these nodes: totals, and one row more than there is room for."""
    before = request.known or Survey((), Totals())
    every = [_row(entry, page.now) for entry in page.entries]
    wanted = [row for row in every if row.entry.node.config.queueing is not request.plain]
    if request.problem is not None:
        wanted = [row for row in wanted if request.problem in row.problems]
    if request.after is not None:
        wanted = [row for row in wanted if place_of(row, request.sort) > request.after]
    rows = nsmallest(
        _room(request) + 1, [*before.rows, *wanted], key=lambda row: place_of(row, request.sort)
    )
    return Survey(tuple(rows), _added(before.totals, every))


def _row(entry: NodeEntry, now: Millis) -> SurveyRow:
    queueing = entry.node.config.queueing
    return SurveyRow(entry, problems_of(entry, now) if queueing else ())


def _added(totals: Totals, rows: list[SurveyRow]) -> Totals:
    """Return the totals including these nodes."""
    queues = [row for row in rows if row.entry.node.config.queueing]
    counts = dict(totals.problems)
    for row in queues:
        for problem in row.problems:
            counts[problem] = counts.get(problem, 0) + 1
    return Totals(
        queues=totals.queues + len(queues),
        plain=totals.plain + len(rows) - len(queues),
        troubled=totals.troubled + sum(bool(row.problems) for row in queues),
        queued=totals.queued + sum(row.entry.queued for row in queues),
        locked=totals.locked + sum(row.entry.locked for row in queues),
        delayed=totals.delayed + sum(row.entry.delayed for row in queues),
        dead=totals.dead + sum(row.entry.dead for row in queues),
        held=totals.held + sum(row.entry.held for row in queues),
        rate=totals.rate + sum(row.entry.rate for row in queues),
        problems=tuple((one, counts[one]) for one in PROBLEMS if one in counts),
    )


# Samples: the state and the events of a queue, minute by minute over the last hours, for plots.
#
# A node has a sample of a minute only if something happened there in that minute; in all others its
# state did not change. Each process adds its own events, and replaces the levels: so several
# processes on one store make one sample.

MAX_SAMPLED: Final = 500
"""Up to how many nodes have a sample of a minute from one process."""

CLEARED: Final = 5_000
"""Up to how many old samples are deleted at once: more than several processes add meanwhile."""

FOR_ADMINS: Final = "only administrators of the service may read samples"


class KeepSamples(Request, frozen=True, gc=False):
    """Store the samples of this process, up to one for a node and a minute, and drop old ones."""

    by: Principal
    samples: tuple[Sample, ...]


class KeepFacts(Struct, frozen=True, gc=False):
    """The moment."""

    now: Millis


class ReadSamples(Read, frozen=True, gc=False):
    """Request the samples of these nodes from a moment on."""

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
