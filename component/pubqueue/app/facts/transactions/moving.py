"""Facts for commits of more winners than one batch can hold: the next winners, with the items that have their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.facts.queue.publishing import audience, existing, fed
from pubqueue.app.facts.transactions.committing import standing
from pubqueue.app.store.version_listings import RecordOf, Unmoved, WinnerRows
from pubqueue.model.entities import NO_TIME, Jid, Principal
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.commit import CommitNodeFacts
from pubqueue.rules.moving import LookFacts, MetWinner, MoveFacts, ResumeFacts, dead_letter_id
from pubqueue.rules.publication import Known

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.model.entities import Millis, Node, NodeName
    from pubqueue.model.transactions import WinnerRow
    from pubqueue.rules.commit import LookAtWinners
    from pubqueue.rules.moving import MoveWinners

SLICE: Final = 500
ROOM: Final = 1 << 20
"""Winners, and bytes of their payloads, in one slice."""


def for_look(context: Context, request: LookAtWinners) -> LookFacts:
    """Return the next winners of an open version."""
    rows, commit = context.rows, request.commit
    facts, account = standing(context, commit), commit.by.account
    named = tuple((part.number, part.attempt) for part in commit.parts)
    which = WinnerRows(commit.app, commit.version, named, ROOM)
    winners = _slice(context, rows.page(which, request.after, SLICE))
    names = dict.fromkeys(row.node for row in winners)
    if request.taken and commit.dead_letter_node is not None:
        facts = replace(facts, dead_letters=_place(context, commit.dead_letter_node, account))
    nodes = {name: rows.node(name) for name in (*names, *(name for name, _ in request.added))}
    payers = {name: node.creator for name, node in nodes.items() if node is not None}
    return LookFacts(
        facts,
        tuple([_met(context, row) for row in winners]),
        {n: rows.rights(n, account) for n in names},
        nodes,
        {} if winners else {name: context.allowance(payer) for name, payer in payers.items()},
    )


def _slice(context: Context, winners: list[WinnerRow]) -> list[WinnerRow]:
    """Return as many of the winners as add up to a slice of items in nodes and the queues that these feed."""
    items = 0
    for count, row in enumerate(winners):
        if items >= SLICE:
            return winners[:count]
        node = context.rows.node(row.node)
        items += 1 if node is None else 1 + len(node.config.feeds)
    return winners


def _place(context: Context, name: NodeName, account: Jid) -> CommitNodeFacts:
    """Return a node for dead letters, and the principal's affiliation with it."""
    rows = context.rows
    rights = rows.rights(name, account)
    node = rows.node(name)
    allowance = None if node is None else context.allowance(node.creator)
    return CommitNodeFacts(name, node, *rights, rows=0, ids=0, allowance=allowance)


def _met(context: Context, row: WinnerRow) -> MetWinner:
    node = context.rows.node(row.node)
    if node is None or row.superseded:
        return MetWinner(row, node, Known.NEW, None)
    met = MetWinner(row, node, *existing(context, node, row.item.draft))
    if not node.config.feeds:
        return met
    draft = row.item.draft
    return replace(
        met, fed=fed(context, node, (draft,)), space=context.payloads.space_of(draft.payload)
    )


def for_move(context: Context, request: MoveWinners) -> MoveFacts:
    """Return the next winners of a committed version."""
    rows = context.rows
    which = WinnerRows(request.app, request.version, None, ROOM)
    winners = _slice(context, rows.page(which, None, SLICE))
    record = next(iter(rows.page(RecordOf(request.app, request.version))), None)
    if record is None:  # nothing of it is left, or its needs are being collected
        return MoveFacts(Jid(""), NO_TIME, (), {})
    nodes = {row.node: rows.node(row.node) for row in winners}
    at, name = record.committed or NO_TIME, record.dead_letter_node
    place = None if name is None else _open_to(context, name, record.owner)
    met = [_met(context, row) for row in winners]
    if place is not None:
        met = [_met_there(context, request, winner, (place, at)) for winner in met]
    return MoveFacts(
        record.owner,
        at,
        tuple(met),
        {name: audience(context, node) for name, node in nodes.items() if node is not None},
        record.on_taken,
        place,
    )


def _open_to(context: Context, name: NodeName, owner: Jid) -> Node | None:
    """Return the node for dead letters, if the owner of the app may publish there now."""
    node = context.rows.node(name)
    affiliation, subscribed = context.rows.rights(name, owner)
    if node is None:
        return None
    standing = access.standing_of(
        Principal(owner, admin=owner in context.terms.operators), affiliation
    )
    may = access.may(standing, Action.PUBLISH, node, subscribed=subscribed)
    return node if may else None


def _met_there(
    context: Context, request: MoveWinners, winner: MetWinner, goes: tuple[Node, Millis]
) -> MetWinner:
    """Add whether the id under which the winner would become a dead letter exists already."""
    if winner.known is not Known.OTHER:
        return winner
    place, at = goes
    there = context.rows.item(place.name, dead_letter_id(request, winner.row, at))
    return replace(winner, twice=there is not None)


def for_resume(context: Context, _request: object) -> ResumeFacts:
    """Return the oldest commit that still has winners to move."""
    return ResumeFacts(next(iter(context.rows.page(Unmoved())), None))
