"""The winners of one version. Nothing is judged here but sameness to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.store.listings import UNBOUNDED, NodeWinners, WinnerClass
from pubqueue.app.store.rows import Conflict
from pubqueue.core.model import Draft, NodeName, State
from pubqueue.core.transactions.model import TakenId
from pubqueue.stores.sql.columns import unpacked

if TYPE_CHECKING:
    from pubqueue.app.store import listings as li
    from pubqueue.app.store.rows import Judged
    from pubqueue.core.transactions.model import SetAside
    from pubqueue.stores.sql.session import SqlSession

ALL = UNBOUNDED
"""No limit, as the statements take it."""


def begin(session: SqlSession, which: li.Winners, _after: object, limit: int) -> list[NodeWinners]:
    """Begin a commit of these (part, attempt): return each node with its rows and ids."""
    _choose(session, which)
    (transaction,) = session.row("open_version", which.app, which.version) or (0,)
    found = session.rows("node_winners", transaction, ALL)
    if any(rows > ids for _, rows, ids in found):
        session.run("meet_each_other", transaction)
    session.run("meet_items", transaction)
    return [NodeWinners(NodeName(node), rows, ids) for node, rows, ids in found[:limit]]


def _choose(session: SqlSession, which: li.Winners) -> None:
    session.met.clear()
    session.run("forget_winners")
    session.run("forget_met")
    attempts = session.rows("attempts_of", which.app, which.version, ALL)
    known = {(part, number): row_id for _, _, part, number, *_, row_id in attempts}
    chosen = [(part[0], known[part]) for part in which.parts if part in known]
    session.many("add_winner", chosen)


def conflicts(
    session: SqlSession, which: li.Conflicts, _after: object, limit: int
) -> list[Conflict]:
    """Return winners of which it is open whether they mean the same as what is there.

    Finished work is met once: what was judged to be other work is not to be met again.
    """
    if which.absorbing is not None and which.node not in session.met:
        session.met.add(which.node)
        session.run("meet_finished", session.id(which.node), which.absorbing, which.node)
    return [
        Conflict((attempt, row), finished != 0, there, offered)
        for attempt, row, finished, there, offered in session.rows("contested", which.node, limit)
    ]


def judge(session: SqlSession, change: Judged) -> None:
    """Keep whether these mean the same; finished work that does not counts no longer."""
    kept, gone = [], []
    for conflict, same in change.verdicts:
        if same or not conflict.finished:
            kept.append((same, *conflict.key))
        else:
            gone.append(conflict.key)
    session.each("judge", kept)
    session.each("unmeet", gone)


def classes(
    session: SqlSession, which: li.WinnerClasses, _after: object, limit: int
) -> list[WinnerClass]:
    """Return what the winners of a node have met."""
    return [
        WinnerClass(state, same != 0, count, first)
        for state, same, count, first in session.rows("found", which.node, limit)
    ]


def taken(session: SqlSession, which: li.TakenWinners, _after: object, limit: int) -> list[TakenId]:
    """Return the winners of a node that cannot have their ids."""
    rows = session.rows("taken", which.node, limit)
    return [TakenId(which.node, name, State(state)) for name, state in rows]


def set_aside(session: SqlSession, change: SetAside) -> None:
    """Let winners that cannot have their ids win no longer, or in another node."""
    if change.to is None:
        session.run("leave_out")
    else:
        session.run("win_elsewhere", change.to, change.at)
        session.run("meet_nothing")


def drafts(session: SqlSession, which: li.WinningDrafts, _after: object, limit: int) -> list[Draft]:
    """Return the winners of a node, in their order."""
    rows = session.rows("winning_drafts", which.node, limit)
    return [
        Draft(name, payload, priority, pause, life, unpacked(headers))
        for name, payload, priority, pause, life, headers in rows
    ]
