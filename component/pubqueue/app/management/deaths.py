"""Operations on dead items: list them, count them by their reasons, redrive them, discard them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.management.cells import Cell
from pubqueue.app.management.items import TAKEN_OUT, named, taken_out
from pubqueue.app.management.model import (
    AFTER,
    MAX_ROWS,
    NODE,
    NUMBERED_AFTER,
    Answer,
    Column,
    Operation,
    Parameter,
    ParameterKind,
    UnfitError,
)
from pubqueue.app.management.nodes import node_of
from pubqueue.app.management.words import count
from pubqueue.core.limits.request_sizes import MAX_NAMED
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.model.replies import Power
from pubqueue.rules.dead_letters import Cancel, Discard, ReadReasons, Redrive
from pubqueue.rules.read import ReadItems

if TYPE_CHECKING:
    from pubqueue.app.management.given import Given
    from pubqueue.app.management.model import Row
    from pubqueue.app.rules import Request
    from pubqueue.model.decision import Cancelled, Redriven
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import ItemEntry, ItemPage, ReasonPage

REVIVED: Final = 1_000
"""The maximum of one redrive without names; there may be more then."""

REASON: Final = Parameter(
    "reason", ParameterKind.TEXT, "Only those that died of this; * stands for any text"
)

THROUGH: Final = Column("through", "Scanned up to", more=True)
"""Where to continue: dead items are looked at in parts."""

ABOUT_DEATHS: Final = (
    Column("id", "Item"),
    Column("died", "Died", Cell.SINCE),
    Column("error", "Last error"),
    Column("failed", "Failures", Cell.COUNT),
    Column("last_holder", "Last held by"),
    Column("origin", "Moved here from"),
    Column("size", "Bytes", Cell.COUNT),
    Column("death", "Number", Cell.COUNT, more=True),
    Column("published", "Published at", Cell.MOMENT, more=True),
    Column("publisher", "Published by", more=True),
)


# --- lists --------------------------------------------------------------------------------------


def _ask_dead(by: Principal, given: Given) -> Request:
    after, most = given.number("after") or 0, given.number("max")
    return ReadItems(
        *(by, node_of(given), after),
        max=most,
        state=State.DEAD,
        payloads=False,
        reason=given.one("reason"),
    )


def _dead(page: ItemPage, _given: Given) -> Answer:
    rows = tuple(map(_of_death, page.entries))
    return Answer(
        f"{count(len(rows), 'dead item')} of {page.node}.", rows, str(page.through), more=page.more
    )


def _of_death(entry: ItemEntry) -> Row:
    item, letter = entry.item, entry.item.dead_letter
    assert letter is not None  # the column by which dead items are listed
    why = item.error or None, item.failed, letter.holder, letter.origin
    return item.id, letter.at, *why, entry.size, letter.number, item.published, item.publisher


DEAD: Final = Operation(
    "dead",
    "List the dead items of a node",
    "Items that died here or were moved here dead, in the order of their deaths, each with its last error.",
    Power.NODES,
    (NODE, REASON, NUMBERED_AFTER, MAX_ROWS),
    ABOUT_DEATHS,
    _ask_dead,
    _dead,
    place="death",
)


def _ask_reasons(by: Principal, given: Given) -> Request:
    return ReadReasons(by, node_of(given), given.one("after") or None, given.number("max"))


def _reasons(page: ReasonPage, _given: Given) -> Answer:
    rows = tuple((one.reason, one.count, one.last, one.first) for one in page.reasons)
    of = f"{count(page.looked, 'dead item')} of {page.node}"
    note = f"{count(len(rows), 'reason')} of {'' if page.whole else 'the first '}{of}."
    through = page.reasons[-1].reason if rows else ""
    return Answer(note, rows, through, more=page.more)


REASONS: Final = Operation(
    "reasons",
    "Count dead items by their reasons",
    "Why the dead items of a node have died, the most frequent reason first. Reasons that differ only in numbers or ids count as one, with * in their place.",
    Power.NODES,
    (NODE, AFTER, MAX_ROWS),
    (
        Column("reason", "Reason"),
        Column("count", "Dead items", Cell.COUNT),
        Column("last", "Last death", Cell.MOMENT),
        Column("first", "First death", Cell.MOMENT, more=True),
    ),
    _ask_reasons,
    _reasons,
    place="reason",
)


# --- what is done to them -----------------------------------------------------------------------


def _ask_redrive(by: Principal, given: Given) -> Request:
    ids, to, reason = _chosen(given), given.one("to"), given.one("reason")
    after = given.number("after") or 0
    return Redrive(
        *(by, node_of(given), ids or None, NodeName(to) if to else None),
        reason=reason,
        after=after,
    )


def _chosen(given: Given) -> tuple[ItemId, ...]:
    """Return the named items; they, or a reason, not both."""
    if given.lines("item") and given.one("reason"):
        raise UnfitError("reason: name items, or a reason, not both")
    return tuple(map(ItemId, given.lines("item")))


def _redriven(reply: Redriven, given: Given) -> Answer:
    note = f"{count(reply.count, 'dead item')} of {reply.node} requeued."
    every = not given.lines("item") and not given.one("reason")
    more = bool(reply.through) or (every and reply.count >= REVIVED)
    if more:
        note += " There may be more: execute this again."
    elif not reply.count:
        note += " There are none, or their target node has no room."
    row = reply.count, str(reply.through or "")
    return Answer(note, (row,), row[1], more=more, warns=not reply.count)


REDRIVE: Final = Operation(
    "redrive",
    "Redrive dead items",
    "They return to where they died, or go to the node that you name, with their failures reset.",
    Power.NODES,
    (
        NODE,
        Parameter("item", ParameterKind.LINES, "Only these items, by their ids, one per line"),
        REASON,
        Parameter("to", ParameterKind.NODE, "To this node, instead of where they came from"),
        NUMBERED_AFTER,
    ),
    (Column("count", "Requeued", Cell.COUNT), THROUGH),
    _ask_redrive,
    _redriven,
    single=True,
    place="through",
    changes=True,
)


def _ask_discard(by: Principal, given: Given) -> Request:
    if _chosen(given):
        return Cancel(by, node_of(given), named(given, MAX_NAMED), dead=True)
    return Discard(by, node_of(given), given.one("reason"), given.number("after") or 0)


def _discarded(reply: Cancelled, _given: Given) -> Answer:
    answer = taken_out(reply, "discarded", "Not among the dead")
    more, through = bool(reply.through), str(reply.through or "")
    note = answer.note + (" There may be more: execute this again." if more else "")
    return Answer(note, ((*answer.rows[0], through),), through, more=more, warns=answer.warns)


DISCARD: Final = Operation(
    "discard",
    "Discard dead items",
    "Dead items are deleted: those that you name, those with a reason, or all.",
    Power.NODES,
    (
        NODE,
        Parameter("item", ParameterKind.LINES, "Only these items, by their ids, one per line"),
        REASON,
        NUMBERED_AFTER,
    ),
    (*TAKEN_OUT, THROUGH),
    _ask_discard,
    _discarded,
    single=True,
    place="through",
    changes=True,
    sure="The dead items you named of {}, or all of them, will be deleted. This cannot be undone.",
)

OPERATIONS: Final = (DEAD, REASONS, REDRIVE, DISCARD)
