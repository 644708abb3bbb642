"""The winners of one version. The only judgement made here is whether bytes are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.engine.listings import UNBOUNDED, NodeBytes, NodeWinners, WinnerClass
from pubqueue.engine.rows import Conflict
from pubqueue.model.entities import Draft, NodeName, State
from pubqueue.model.transactions import TakenId
from pubqueue.stores.sql.columns import unpacked

if TYPE_CHECKING:
    from pubqueue.engine import listings as ve
    from pubqueue.engine.rows import Judged
    from pubqueue.model.transactions import SetAside
    from pubqueue.stores.sql.session import SqlSession

ALL = UNBOUNDED
"""No limit, as the statements take it."""


def begin(session: SqlSession, which: ve.Winners, _after: object, limit: int) -> list[NodeWinners]:
    """Begin a commit of these attempts, (part, attempt): return each node with its rows and ids."""
    _choose(session, which)
    (transaction,) = session.row("open_version", which.app, which.version) or (0,)
    found = session.rows("node_winners", transaction, ALL)
    if any(rows > ids for _, rows, ids in found):
        session.run("add_conflicts_with_each_other", transaction)
    session.run("add_conflicts_with_items", transaction)
    return [NodeWinners(NodeName(node), rows, ids) for node, rows, ids in found[:limit]]


def _choose(session: SqlSession, which: ve.Winners) -> None:
    session.met.clear()
    session.run("forget_winners")
    session.run("empty_conflicts")
    attempts = session.rows("attempts_of", which.app, which.version, ALL)
    known = {(part, number): row_id for _, _, part, number, *_, row_id in attempts}
    chosen = [(part[0], known[part]) for part in which.parts if part in known]
    session.many("add_winner", chosen)


def conflicts(
    session: SqlSession, which: ve.Conflicts, _after: object, limit: int
) -> list[Conflict]:
    """Return winners that are still to be compared by meaning with what exists under their ids.

    Finished work is compared once: if it was judged to be other work, it does not conflict again.
    """
    if which.absorbing is not None and which.node not in session.met:
        session.met.add(which.node)
        session.run(
            "add_conflicts_with_finished", session.id(which.node), which.absorbing, which.node
        )
    return [
        Conflict((attempt, row), finished != 0, there, offered)
        for attempt, row, finished, there, offered in session.rows(
            "conflicts_to_compare", which.node, limit
        )
    ]


def judge(session: SqlSession, change: Judged) -> None:
    """Store whether these mean the same; finished work that does not is ignored from then on."""
    kept, gone = [], []
    for conflict, same in change.verdicts:
        if same or not conflict.finished:
            kept.append((same, *conflict.key))
        else:
            gone.append(conflict.key)
    session.each("note_compared", kept)
    session.each("drop_conflicts", gone)


def classes(
    session: SqlSession, which: ve.WinnerClasses, _after: object, limit: int
) -> list[WinnerClass]:
    """Return the classes of conflicts of a node's winners."""
    return [
        WinnerClass(state, same != 0, count, first)
        for state, same, count, first in session.rows("conflict_classes", which.node, limit)
    ]


def byte_counts(
    session: SqlSession, _which: ve.WinningBytes, _after: object, limit: int
) -> list[NodeBytes]:
    """Return how many bytes the winners add to each node."""
    return [NodeBytes(*row) for row in session.rows("winning_bytes")[:limit]]


def taken(session: SqlSession, which: ve.TakenWinners, _after: object, limit: int) -> list[TakenId]:
    """Return the winners of a node that cannot have their ids."""
    rows = session.rows("conflicts_in_the_way", which.node, limit)
    return [TakenId(which.node, name, State(state)) for name, state in rows]


def set_aside(session: SqlSession, change: SetAside) -> None:
    """Drop winners that cannot have their ids, or move them to another node."""
    if change.to is None:
        session.run("drop_winners")
    else:
        session.run("move_winners_elsewhere", change.to, change.at)
        session.run("drop_conflicts_of_node")


def drafts(session: SqlSession, which: ve.WinningDrafts, _after: object, limit: int) -> list[Draft]:
    """Return the winners of a node, in their order."""
    rows = session.rows("winning_drafts", which.node, limit)
    return [
        Draft(name, payload, priority, pause, life, unpacked(headers))
        for name, payload, priority, pause, life, headers in rows
    ]
