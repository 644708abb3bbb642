"""Operations on dead items: list them, count them by their reasons, redrive them, discard them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.model import replies
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.operations.items import (
    IN_ITEMS,
    LISTED,
    NUMBER,
    OWN,
    REASON,
    TAKEN_OUT,
    by_number,
    named,
    page_of_items,
    taken_out,
)
from pubqueue.operations.model import (
    AFTER,
    MATCH,
    MAX_ROWS,
    NODE,
    NUMBERED_AFTER,
    Action,
    Answer,
    Cell,
    Column,
    Of,
    Operation,
    Parameter,
    ParameterKind,
    UnfitError,
    count,
    queues,
)
from pubqueue.operations.nodes import node_of
from pubqueue.operations.searching import answered, searched, searches
from pubqueue.rules.dead_letters import (
    Cancel,
    Discard,
    Order,
    ReadDeaths,
    ReadReasons,
    Redrive,
)
from pubqueue.rules.validity import MAX_NAMED

if TYPE_CHECKING:
    from pubqueue.model.decision import Cancelled, Redriven, Request
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Given, Row
    from pubqueue.rules.read import ReadItems


REVIVED: Final = 1_000
"""The maximum of one redrive without names; there may be more then."""

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


def _read_dead(by: Principal, given: Given, after: str) -> ReadItems:
    return page_of_items(by, given, after, State.DEAD)


def _dead(page: replies.ItemPage, _given: Given) -> Answer:
    rows = tuple(map(_of_death, page.entries))
    return Answer(
        f"{count(len(rows), 'dead item')} of {page.node}.", rows, str(page.through), more=page.more
    )


def _of_death(entry: replies.ItemEntry) -> Row:
    item, letter = entry.item, entry.item.dead_letter
    assert letter is not None  # the column by which dead items are listed
    why = item.error or None, item.failed, letter.holder, letter.origin
    return item.id, letter.at, *why, entry.size, letter.number, item.published, item.publisher


DEAD: Final = Operation(
    "dead",
    "List the dead items of a node",
    "Items that died here or were moved here dead, in the order of their deaths, each with its last error.",
    replies.Power.NODES,
    (NODE, LISTED, *IN_ITEMS, AFTER, MAX_ROWS),
    ABOUT_DEATHS,
    searched(_read_dead, own=OWN, order=NUMBER),
    by_number(_dead),
    place="death",
    manual="List dead items.\n\n"
    "Without a node, counts the dead items of all nodes by node and reason, the most frequent first; --sort changes the order. With a node,"
    " lists items that died here and items that arrived here dead, in the order of their deaths, each with its last error. With --reasons,"
    " lists the reasons instead, the most frequent first. `pubqueue redrive` and `pubqueue discard` accept a reason too.",
)


def _reasons(page: replies.ReasonPage, _given: Given) -> Answer:
    rows = tuple((one.reason, one.count, one.last, one.first) for one in page.reasons)
    of = f"{count(page.looked, 'dead item')} of {page.node}"
    note = f"{count(len(rows), 'reason')} of {'' if page.whole else 'the first '}{of}."
    through = page.reasons[-1].reason if rows else ""
    return Answer(note, rows, through, more=page.more)


def _read_reasons(by: Principal, given: Given, after: str) -> ReadReasons:
    return ReadReasons(by, node_of(given), after or None, given.number("max"))


FREQUENT: Final = "count"
"""The usual order of reasons."""

REASONS: Final = Operation(
    "reasons",
    "Count dead items by their reasons",
    "Why the dead items of a node have died, the most frequent reason first. Reasons that differ only in numbers or ids count as one, with * in their place.",
    replies.Power.NODES,
    (NODE, *searches(ReadReasons, "the reasons", order=FREQUENT), AFTER, MAX_ROWS),
    (
        Column("reason", "Reason"),
        Column("count", "Dead items", Cell.COUNT),
        Column("last", "Last death", Cell.MOMENT),
        Column("first", "First death", Cell.MOMENT, more=True),
    ),
    searched(_read_reasons, order=FREQUENT),
    answered(_reasons),
    place="reason",
)


def _ask_deaths(by: Principal, given: Given) -> Request:
    return ReadDeaths(
        by,
        Order(given.one("sort") or Order.COUNT),
        containing=given.one("match"),
        only=node_of(given) if given.one("node") else None,
        reason=given.one("reason"),
        after=given.number("after") or 0,
        most=given.number("max"),
    )


def _deaths(page: replies.DeathPage, given: Given) -> Answer:
    place = given.number("after") or 0
    rows = tuple(
        (one.node, one.reason, one.count, one.worker, one.last, one.first, place + at)
        for at, one in enumerate(page.groups, 1)
    )
    note = f"{count(page.total, 'dead item')} in {count(page.nodes, 'node')}"
    note += "." if page.whole else "; there are more, which were not counted."
    return Answer(note, rows, str(page.through), more=page.more)


DEATHS: Final = Operation(
    "deaths",
    "List the dead items of all nodes",
    "The dead items of all nodes that you manage, counted by node and reason. Reasons that differ only in numbers or ids count as one, with * in their place.",
    replies.Power.NODES,
    (
        Parameter(
            *("sort", ParameterKind.CHOICE, "Order"),
            choices=(
                (Order.COUNT.value, "The most dead items first"),
                (Order.REASON.value, "By reason"),
                (Order.QUEUE.value, "By node"),
                (Order.AGE.value, "The oldest death first"),
                (Order.WORKER.value, "By worker: counted by the account that held them last, too"),
            ),
            usual=Order.COUNT.value,
            help="The order. With worker, items are also counted by the account that held them last.",
        ),
        Parameter("node", ParameterKind.NODE, "Only of this node"),
        MATCH,
        LISTED,
        NUMBERED_AFTER,
        MAX_ROWS,
    ),
    (
        Column("node", "Node"),
        Column("reason", "Reason"),
        Column("count", "Dead items", Cell.COUNT),
        Column("worker", "Last held by"),
        Column("last", "Last death", Cell.MOMENT),
        Column("first", "First death", Cell.MOMENT),
        Column("place", "Place", Cell.COUNT, more=True),
    ),
    _ask_deaths,
    _deaths,
    place="place",
    sums=True,
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


THEY_RETURN: Final = (
    "They return to the node where they died, and their count of failures starts at zero."
)

REDRIVE: Final = Operation(
    "redrive",
    "Redrive dead items",
    "They return to where they died, or go to the node that you name, with their failures reset.",
    replies.Power.NODES,
    (
        NODE,
        Parameter("item", ParameterKind.LINES, "Only these items, by their ids, one per line"),
        REASON,
        Parameter(
            *("to", ParameterKind.NODE, "To this node, instead of where they came from"),
            help="Requeue them to this node, not to the node where they died.",
        ),
        NUMBERED_AFTER,
    ),
    (Column("count", "Requeued", Cell.COUNT), THROUGH),
    _ask_redrive,
    _redriven,
    single=True,
    place="through",
    changes=True,
    question=f"Requeue {{}}? {THEY_RETURN}",
    actions=(
        Action(Of.DEAD, "Redrive all dead items", "Yes, redrive them"),
        Action(Of.ITEMS, "Redrive", "Yes, redrive"),
        Action(Of.REASON, "Redrive these", "Yes, redrive them"),
    ),
    nodes=queues(),
    manual="Requeue dead items.\n\n"
    f"Requeues all dead items of a node, those that died for a reason, or those you name. {THEY_RETURN}"
    " Named items are requeued all or none; without names, each item that can be requeued is.",
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
    replies.Power.NODES,
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
    final=True,
    takes_away=True,
    sure="The dead items you named of {}, or all of them, will be deleted.",
    question="Delete {}?",
    actions=(
        Action(Of.ITEMS, "Discard", "Yes, discard"),
        Action(Of.REASON, "Discard these", "Yes, discard them"),
    ),
    manual="Delete dead items.\n\n"
    "Deletes all dead items of a node, those that died for a reason, or those you name. You have to confirm, unless you pass --yes. Exits"
    " with 1 if an item that you name is not dead.",
)

ON_DEAD: Final = (DEAD, REASONS, DEATHS, REDRIVE, DISCARD)
