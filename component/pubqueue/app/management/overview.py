"""The operation that looks at all queues at once: problems first, totals, sorted by any column."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pubqueue.app.management.cells import Cell
from pubqueue.app.management.model import (
    AFTER,
    MAX_ROWS,
    Answer,
    Column,
    Operation,
    Parameter,
    ParameterKind,
    UnfitError,
)
from pubqueue.app.management.nodes import state_of
from pubqueue.app.management.words import count
from pubqueue.model.replies import Power
from pubqueue.rules.survey import PROBLEMS, Problem, ReadSurvey, Sort, place_of

if TYPE_CHECKING:
    from pubqueue.app.management.given import Given
    from pubqueue.app.management.model import Row
    from pubqueue.app.rules import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import Survey, SurveyRow, Totals
    from pubqueue.rules.survey import Place

SORTS: Final = (
    (Sort.PROBLEMS.value, "Problems first"),
    (Sort.NAME.value, "By name"),
    (Sort.WAITING.value, "Most waiting first"),
    (Sort.IN_FLIGHT.value, "Most in flight first"),
    (Sort.DELAYED.value, "Most delayed first"),
    (Sort.DEAD.value, "Most dead first"),
    (Sort.OLDEST.value, "Longest waiting first"),
    (Sort.RATE.value, "Most done first"),
    (Sort.SUBSCRIBERS.value, "Most subscribers first"),
    (Sort.ITEMS.value, "Most items first"),
)

SORT: Final = Parameter(
    "sort", ParameterKind.CHOICE, "Order", choices=SORTS, usual=Sort.PROBLEMS.value
)
PLAIN: Final = Parameter("plain", ParameterKind.FLAG, "Plain nodes instead of queues", usual="0")
CONTAINING: Final = Parameter("containing", ParameterKind.TEXT, "Only names that contain this")

PHRASES: Final = {
    Problem.NO_WORKERS: "without workers",
    Problem.TOO_LARGE: "with items too large for their workers",
    Problem.FAILING: "failing",
    Problem.OLD: "with an item that waits too long",
    Problem.DEAD: "with dead items",
    Problem.PAUSED: "paused",
    Problem.CLOSED: "closed to publishers",
}
"""The name of a problem after a number of queues."""


def place_in_words(place: Place) -> str:
    """Return a place as one text."""
    return f"{place[0]!r}:{place[1]}"


def place_from(text: str) -> Place | None:
    """Return the place that a text represents, None for none.

    Raises:
        UnfitError: it is not a place.

    """
    if not text:
        return None
    number, _, name = text.partition(":")
    try:
        place = float(number)
    except ValueError:
        place = math.nan
    if not name or math.isnan(place):
        raise UnfitError("after: the place of a row, as the answer has it")
    return place, name


def in_words(totals: Totals, *, whole: bool) -> str:
    """Return the totals as a sentence or two."""
    counts = dict(totals.problems)
    which = ", ".join(f"{counts[one]} {PHRASES[one]}" for one in PROBLEMS if one in counts)
    troubles = f"{totals.troubled} with problems ({which})" if which else "none with a problem"
    return (
        f"{'' if whole else 'The first '}{count(totals.queues, 'queue')}, {troubles}, and {count(totals.plain, 'plain node')}."
        f" {totals.queued} waiting, {totals.delayed} delayed, {totals.locked} in flight, {totals.dead} dead,"
        f" {totals.rate:.1f} done per minute."
    )


def _ask(by: Principal, given: Given) -> Request:
    return ReadSurvey(
        by,
        Sort(given.one("sort") or Sort.PROBLEMS),
        plain=given.says_yes("plain"),
        containing=given.one("containing"),
        after=place_from(given.one("after")),
        most=given.number("max"),
    )


def _answer(found: Survey, given: Given) -> Answer:
    sort = Sort(given.one("sort") or Sort.PROBLEMS)
    rows = tuple(_row(row, sort) for row in found.rows)
    through = str(rows[-1][-1]) if rows else ""
    note = in_words(found.totals, whole=found.whole)
    return Answer(note, rows, through, more=found.more, now=found.now)


def _row(row: SurveyRow, sort: Sort) -> Row:
    entry = row.entry
    return (
        entry.node.name,
        row.problems,
        state_of(entry.node.config),
        entry.queued,
        entry.locked,
        entry.delayed,
        entry.dead,
        entry.oldest,
        entry.rate,
        entry.failing,
        entry.node.subscriptions,
        entry.node.items,
        entry.node.bytes,
        entry.too_large,
        place_in_words(place_of(row, sort)),
    )


OVERVIEW: Final = Operation(
    "overview",
    "Look at all queues, problems first",
    "The totals, and the queues with problems first: without workers, with items too large for them, failing, with old or dead items, paused.",
    Power.NODES,
    (SORT, PLAIN, CONTAINING, AFTER, MAX_ROWS),
    (
        Column("node", "Node"),
        Column("problems", "Problems", Cell.NAMES),
        Column("state", "State", more=True),
        Column("depth", "Waiting", Cell.COUNT),
        Column("in_flight", "In flight", Cell.COUNT),
        Column("delayed", "Delayed", Cell.COUNT),
        Column("dead", "Dead", Cell.COUNT),
        Column("oldest", "Oldest waits for", Cell.SINCE),
        Column("rate", "Done per minute", Cell.RATE),
        Column("failing", "Failed per minute", Cell.RATE, more=True),
        Column("workers", "Subscribers", Cell.COUNT),
        Column("items", "Items", Cell.COUNT, more=True),
        Column("bytes", "Bytes of items", Cell.COUNT, more=True),
        Column("too_large", "Too large for every worker", Cell.COUNT, more=True),
        Column("place", "Place", more=True),
    ),
    _ask,
    _answer,
    place="place",
)

OPERATIONS: Final = (OVERVIEW,)
