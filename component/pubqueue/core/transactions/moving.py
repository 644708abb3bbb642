"""Commits of more winners than one batch can hold: looked at in slices, committed in an instant, moved in slices.

First every winner is judged by the table that judges single publishes; a refusal leaves everything staged. Then the
version is marked committed, and what its winners have staged belongs to the record. From then on the winners are moved to
their nodes, in their order, and seen as they come; whatever happens, all of them are. Who has asked is answered when the
last one is in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import AddItem, Change, RemoveItem, ReplacePayload
from pubqueue.core.decision import (
    Announce,
    Decision,
    Done,
    Notice,
    Refusal,
    Refused,
    Retracted,
    refuse,
)
from pubqueue.core.model import later
from pubqueue.core.queue.publish import (
    PLACES,
    TAKEN,
    Known,
    Place,
    Publish,
    PublishFacts,
    inadmissible,
    overfull,
)
from pubqueue.core.transactions.commit import CommitFacts, CommitVersion, LookAtWinners, objection
from pubqueue.core.transactions.model import Commit, Committed, Moved, WinnerRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.core.model import Affiliation, Item, Jid, Millis, Node, NodeName


class MetWinner(Struct, frozen=True, gc=False):
    """A winner with its node, and what is there under its id."""

    row: WinnerRow
    node: Node | None
    known: Known
    there: Item | None


class LookFacts(Struct, frozen=True, gc=False):
    """What the commit has to hold as a whole, the next winners, and what the asker is to their nodes.

    `nodes` are those of these winners and of the ones before them.
    """

    commit: CommitFacts
    winners: tuple[MetWinner, ...]
    rights: Mapping[NodeName, tuple[Affiliation, bool]]
    nodes: Mapping[NodeName, Node | None]


class MoveWinners(Struct, frozen=True, gc=False):
    """Move the next winners of a committed version; `reply` is for who waits for the last one."""

    app: str
    version: int
    reply: Committed | None = None


class MoveFacts(Struct, frozen=True, gc=False):
    """Whose the version is and when it was committed, the next winners, and who hears of each plain node."""

    owner: Jid
    at: Millis
    winners: tuple[MetWinner, ...]
    audiences: Mapping[NodeName, tuple[Jid, ...]]


class ResumeMoves(Struct, frozen=True, gc=False):
    """Move what commits have left behind when the process ended."""


class ResumeFacts(Struct, frozen=True, gc=False):
    """The oldest commit of which something is to be moved."""

    unmoved: tuple[str, int] | None


def look(request: LookAtWinners, facts: LookFacts) -> Decision:
    """Judge a slice of winners; behind the last one, commit."""
    commit = request.commit
    if (no := objection(commit, facts.commit)) is not None:
        return no
    if (no := _misfit(commit, facts)) is not None:
        return no
    if not facts.winners:
        return _commit(request, facts)
    added, known = dict(request.added), request.known
    for winner in facts.winners:
        place = _place(winner)
        if place in TAKEN:
            refusal, words = TAKEN[place]
            name, node = winner.row.item.draft.id, winner.row.node
            return refuse(refusal, f"{words.format(name)} (node {node})")
        if place is Place.LEAVE:
            known += 1
        else:
            new = winner.there is None
            added[winner.row.node] = added.get(winner.row.node, 0) + new
    last = facts.winners[-1].row
    then = LookAtWinners(commit, (last.part, last.row), tuple(added.items()), known)
    reason = "the service stops before it is committed"
    return Decision(Refused(Refusal.STORE_FAILED, reason), then=then)


def _misfit(commit: CommitVersion, facts: LookFacts) -> Decision | None:
    """Refuse winners of a node that is no more, or to which the asker may not publish."""
    for name, (affiliation, subscribed) in facts.rights.items():
        node = facts.nodes[name]
        if node is None:
            return refuse(Refusal.NODE_NOT_FOUND, f"node {name} is no more")
        may = PublishFacts(facts.commit.now, node, affiliation, subscribed, ())
        if (no := inadmissible(Publish(commit.by, name, ()), may, node)) is not None:
            return no
    return None


def _place(winner: MetWinner) -> Place:
    """Return what becomes of a winner; in a plain node it overwrites what is there."""
    if winner.row.superseded:
        return Place.LEAVE
    if winner.node is None or not winner.node.config.queueing:
        return Place.ADD
    return PLACES[winner.known, None if winner.there is None else winner.there.state]


def _commit(request: LookAtWinners, facts: LookFacts) -> Decision:
    commit = request.commit
    for name, added in request.added:
        node = facts.nodes[name]
        if node is not None and overfull(node, added, 0):
            return refuse(Refusal.NODE_FULL, limit=node.config.max_items)
    items = sum(part.items for part in commit.parts)
    who, now = commit.by.account, facts.commit.now
    moving = tuple((part.number, part.attempt) for part in commit.parts)
    size, totals = facts.commit.bytes, commit.totals
    change = Commit(commit.app, who, commit.version, now, (), items, size, totals, moving)
    reply = Committed(commit.version, items - request.known, request.known, already=False)
    return Decision(reply, (change,), then=MoveWinners(commit.app, commit.version, reply))


def move(request: MoveWinners, facts: MoveFacts) -> Decision:
    """Let a slice of winners take their places."""
    reply = request.reply or Done()
    if not facts.winners:
        return Decision(reply, then=None if request.reply else ResumeMoves())
    changes: list[Change] = []
    notices: list[Notice] = []
    ends: dict[tuple[int, int], int] = {}
    for winner in facts.winners:
        row = winner.row
        ends[row.part, row.attempt] = row.row
        if row.superseded or winner.node is None:
            continue
        changes += _taking_its_place(request, facts, winner)
        if winner.there is not None and winner.there.holder is not None and _place(winner) in TAKEN:
            notices.append(Retracted(winner.there.holder, row.node, (row.item.draft.id,)))
        notices += [
            Announce(jid, row.node, row.item.draft, facts.owner)
            for jid in facts.audiences.get(row.node, ())
        ]
    told = tuple((*key, row) for key, row in ends.items())
    changes.append(Moved(request.app, request.version, told))
    return Decision(reply, tuple(changes), tuple(notices), then=request)


def _taking_its_place(
    request: MoveWinners, facts: MoveFacts, winner: MetWinner
) -> tuple[Change, ...]:
    """Return what a winner changes: what has come in its way since it was judged is withdrawn, for it is committed."""
    item, there = winner.row.item, winner.there
    due = None if item.pause is None else later(facts.at, item.pause)
    expires = None if item.life is None else later(facts.at, item.life)
    add = AddItem(
        *(winner.row.node, item.draft, facts.owner, facts.at, item.state, due, expires),
        transaction=(request.app, request.version),
    )
    place = _place(winner)
    if place is Place.LEAVE:
        return ()
    if there is None:
        return (add,)
    if place is Place.REPLACE:
        return (ReplacePayload(there, item.draft.payload, facts.owner, item.draft.headers),)
    return RemoveItem(there), add


def resume(_request: ResumeMoves, facts: ResumeFacts) -> Decision:
    """Go on with the oldest commit of which something is to be moved."""
    then = None if facts.unmoved is None else MoveWinners(*facts.unmoved)
    return Decision(Done(), then=then)
