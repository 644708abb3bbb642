"""Commits of more winners than one batch can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import transactions as t
from pubqueue.model.changes import AddItem, Change, RemoveItem, ReplacePayload
from pubqueue.model.decision import Decision, Done, Refusal, Refused, Request, refuse
from pubqueue.model.entities import MAX_ID_LENGTH, NO_TIME, ItemId, NodeName, later
from pubqueue.model.notices import Notice, Retracted, announce
from pubqueue.model.records import weight
from pubqueue.model.sums import DAMAGED
from pubqueue.rules.commit import (
    NAMED,
    TAKEN,
    CommitFacts,
    CommitVersion,
    LookAtWinners,
    dead_letters,
    objection,
    refused,
)
from pubqueue.rules.damage import RECORD_DAMAGED
from pubqueue.rules.feed import Guests, come, named
from pubqueue.rules.feed import refusal as refuses
from pubqueue.rules.publication import PLACES, Known, Place, Publish, PublishFacts, new_item
from pubqueue.rules.publish import inadmissible
from pubqueue.rules.room import Growth, full, growth, overdrawn_together
from pubqueue_xeps.wire.names import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pubqueue.model.entities import Affiliation, Item, Jid, Millis, Node, State
    from pubqueue.model.notices import Audience, News
    from pubqueue.rules.publication import Fed
    from pubqueue.rules.room import Allowance


# Commits of more winners than one batch can hold: judged in slices, committed at once, moved in slices.
#
# First every winner is judged by the table that judges single publishes; a refusal leaves everything
# staged. Then the version is marked committed, and its winners' staged items belong to the record. From
# then on the winners are moved to their nodes, in their order, and visible as they arrive; after a crash
# the moves continue. The requester is answered after the last one has been moved, or at once and whenever
# it asks again, if it wants to know how far the commit is.
#
# Taken ids are judged twice. The first judgement decides whether the version is committed; the second,
# when the winner is moved, decides whether it is left out or dead-lettered, if the principal has chosen
# so, and it is counted then.


class MetWinner(Struct, frozen=True, gc=False):
    """A winner with its node, and the item that already has its id.

    `twice` means that a dead letter already has the id under which it would go to the dead-letter
    node. `fed` are the queues that its node feeds, and `space` is the namespace of its payload, if they ask for one.
    """

    row: t.WinnerRow
    node: Node | None
    known: Known
    there: Item | None
    twice: bool = False
    fed: tuple[Fed, ...] = ()
    space: str = ""


class LookFacts(Struct, frozen=True, gc=False):
    """The totals of the commit, the next winners, and the principal's affiliations with their nodes.

    `nodes` are those of these winners and of the ones before them.
    """

    commit: CommitFacts
    winners: tuple[MetWinner, ...]
    rights: Mapping[NodeName, tuple[Affiliation, bool]]
    nodes: Mapping[NodeName, Node | None]
    allowances: Mapping[NodeName, Allowance | None] = {}
    """Of the accounts that created them, and the node for dead letters; None if they have no limits."""


class MoveWinners(Request, frozen=True, gc=False):
    """Move the next winners of a committed version, after `moved` others; the requester is sent `reply` after the last one."""

    app: str
    version: int
    reply: t.Committed | None = None
    moved: int = 0


class MoveFacts(Struct, frozen=True, gc=False):
    """Now, the owner and time of the committed version, the next winners, and the audience of each plain node.

    `on_taken` is what the principal has chosen, `dead_letters` the queue for it, if it exists.
    """

    now: Millis
    owner: Jid
    at: Millis
    winners: tuple[MetWinner, ...]
    audiences: Mapping[NodeName, Audience]
    on_taken: t.OnTaken = t.OnTaken.FAIL
    dead_letters: Node | None = None
    damaged: bool = False
    """Whether the record of the version is not what was written: where its winners go is not known."""


class ResumeMoves(Request, frozen=True, gc=False):
    """Move the remaining winners of commits that were not finished when the process ended."""


class ResumeFacts(Struct, frozen=True, gc=False):
    """The oldest commit with winners to move."""

    unmoved: tuple[str, int] | None


def look(request: LookAtWinners, facts: LookFacts) -> Decision:
    """Judge a slice of winners; after the last one, commit."""
    commit = request.commit
    if (no := objection(commit, facts.commit)) is not None:
        return no
    if (no := _misfit(commit, facts)) is not None:
        return no
    if not facts.winners:
        return _commit(request, facts)
    for winner in facts.winners:
        if winner.row.damaged:
            text = f"of item {winner.row.item.draft.id} of {winner.row.node} {DAMAGED}"
            return refuse(Refusal.NOT_AS_STAGED, f"{text}: stage it again")
        if (refused_by := _refused_by_fed(winner)) is not None:
            return Decision(refused_by)
    last = facts.winners[-1].row
    then = _summed(replace(request, after=(last.part, last.row)), facts.winners)
    reason = "the service stopped before the commit"
    return Decision(Refused(Refusal.STORE_FAILED, reason), then=then)


def _summed(request: LookAtWinners, winners: Sequence[MetWinner]) -> LookAtWinners:
    """Add the effects of these winners on their nodes."""
    added, grown = dict(request.added), dict(request.grown)
    known, aside = request.known, request.aside
    for winner in winners:
        place, node, there = _place(winner), winner.row.node, winner.there
        draft = winner.row.item.draft
        size = weight(draft.payload, draft.headers)
        if place is Place.LEAVE:
            known += 1
        elif place in TAKEN:
            aside += size
        else:
            added[node] = added.get(node, 0) + (there is None)
            grown[node] = grown.get(node, 0) + size - (0 if there is None else there.size)
        for name, more in _fed_by(winner):
            added[name] = added.get(name, 0) + more.items
            grown[name] = grown.get(name, 0) + more.bytes
    taken = _taken(winners)
    return replace(
        request,
        added=tuple(added.items()),
        known=known,
        taken=request.taken + len(taken),
        named=(*request.named, *taken)[:NAMED],
        grown=tuple(grown.items()),
        aside=aside,
        judged=request.judged + len(winners),
    )


def _refused_by_fed(winner: MetWinner) -> Refused | None:
    """Refuse a winner for one of the queues that its node feeds."""
    draft = replace(winner.row.item.draft, type=winner.space)
    for fed in winner.fed:
        no = None if fed.is_guest or fed.met == (None,) else refuses(fed.queue, draft)
        if no is not None and winner.node is not None:
            return named(no, fed.queue, winner.node)
    return None


def _fed_by(winner: MetWinner) -> Iterator[tuple[NodeName, Growth]]:
    """Return what a winner adds to each of the queues that its node feeds and that may refuse it."""
    for fed in winner.fed:
        (met,) = fed.met
        if met is not None and not fed.is_guest:
            add = new_item(winner.row.item.draft, fed.queue, fed.queue.creator, NO_TIME)
            yield fed.queue.name, growth(come(met, add))


def _misfit(commit: CommitVersion, facts: LookFacts) -> Decision | None:
    """Refuse winners of a node that does not exist any more, or to which the principal may not publish."""
    for name, (affiliation, subscribed) in facts.rights.items():
        node = facts.nodes[name]
        if node is None:
            return refuse(Refusal.NODE_NOT_FOUND, f"node {name} no longer exists")
        may = PublishFacts(facts.commit.now, node, affiliation, subscribed, ())
        if (no := inadmissible(Publish(commit.by, name, ()), may, node)) is not None:
            return no
    return None


def _place(winner: MetWinner) -> Place:
    """Return what happens to a winner; in a plain node it overwrites an item with its id."""
    if winner.row.superseded:
        return Place.LEAVE
    if winner.node is None or not winner.node.config.queueing:
        return Place.ADD
    return PLACES[winner.known, None if winner.there is None else winner.there.state]


def _taken(winners: Iterable[MetWinner]) -> list[t.TakenId]:
    """Return the ids that winners cannot have."""
    return [
        t.TakenId(winner.row.node, winner.row.item.draft.id, winner.there.state)
        for winner in winners
        if winner.there is not None and _place(winner) in TAKEN
    ]


def _refused(request: LookAtWinners) -> Decision:
    """Name the ids of each node and state, as far as they are kept."""
    classes: dict[tuple[NodeName, State], list[ItemId]] = {}
    for it in request.named:
        classes.setdefault((it.node, it.state), []).append(it.id)
    places = [(node, PLACES[Known.OTHER, state], ids) for (node, state), ids in classes.items()]
    return refused(places, request.taken)


def _commit(request: LookAtWinners, facts: LookFacts) -> Decision:
    commit = request.commit
    if request.taken and commit.on_taken is t.OnTaken.FAIL:
        return _refused(request)
    grown = dict(request.grown)
    for name, added in request.added:
        node = facts.nodes[name]
        more = Growth(added, grown.get(name, 0))
        if node is not None and (no_room := full(node, more)) is not None:
            source = facts.nodes.get(NodeName(node.config.source))
            return Decision(no_room if source is None else named(no_room, node, source))
    if request.taken and commit.on_taken is t.OnTaken.DEAD_LETTER:
        coming = [t.CommittedNode(name, True, added, 0, 0) for name, added in request.added]  # noqa: FBT003  # a queue
        place = dead_letters(
            *(commit, facts.commit, coming), Growth(request.taken, request.aside), grown
        )
        if isinstance(place, Decision):
            return place
    if (no := _overdrawn(request, facts)) is not None:
        return Decision(no)
    items = sum(part.items for part in commit.parts)
    who, now = commit.by.account, facts.commit.now
    moving = tuple((part.number, part.attempt) for part in commit.parts)
    size, totals = facts.commit.bytes, commit.totals
    choice = commit.on_taken, commit.dead_letter_node
    change = t.Commit(
        commit.app, who, commit.version, now, (), items, size, totals, moving, *choice
    )
    reply = t.Committed(commit.version, items - request.known, request.known, already=False)
    return Decision(reply, (change,), then=MoveWinners(commit.app, commit.version, reply))


def _overdrawn(request: LookAtWinners, facts: LookFacts) -> Refused | None:
    """Refuse more than the accounts that created the nodes may have."""
    comes = [(facts.allowances.get(name), more) for name, more in request.added]
    added = [facts.nodes[name] for name, _ in request.added]
    fed = sum(node is not None and node.config.source in facts.nodes for node in added)
    if request.taken and (place := facts.commit.dead_letters) is not None:
        comes.append((place.allowance, request.taken))
    return overdrawn_together(comes, facts.commit.bytes * (1 + fed))


def move(request: MoveWinners, facts: MoveFacts) -> Decision:
    """Move a slice of winners to their places."""
    if facts.damaged:
        return RECORD_DAMAGED
    if not facts.winners:
        return Decision(request.reply or Done(), then=None if request.reply else ResumeMoves())
    aside: list[MetWinner] = []
    changes: list[Change] = []
    notices: list[Notice | News] = []
    guests = Guests(facts.now)
    ends: dict[tuple[int, int], int] = {}
    for winner in facts.winners:
        row = winner.row
        ends[row.part, row.attempt] = row.row
        if row.superseded or row.damaged or winner.node is None:
            continue
        if _goes_aside(facts, winner):
            aside.append(winner)
            changes += _dead_letter(request, facts, winner)
            continue
        changes += _feeding(request, facts, winner, guests)
        changes += _taking_its_place(request, facts, winner)
        if winner.there is not None and winner.there.holder is not None and _place(winner) in TAKEN:
            notices.append(Retracted(winner.there.holder, row.node, (row.item.draft.id,)))
        audience = facts.audiences.get(row.node, ())
        notices += announce(winner.node, audience, row.item.draft, facts.owner)
    ended = tuple((*key, row) for key, row in ends.items())
    changes += guests.ends()
    changes.append(_moved(request, facts, ended, len(aside)))
    moved = request.moved + len(facts.winners)
    then = replace(request, reply=_with(request.reply, aside), moved=moved)
    reply = then.reply or Done()
    return Decision(reply, tuple(changes), tuple(notices), then=then, beside=guests.beside)


def _feeding(
    request: MoveWinners, facts: MoveFacts, winner: MetWinner, guests: Guests
) -> Iterator[Change]:
    """Return what a winner adds to the queues that its node feeds; those of guests are judged now, the others were before the commit."""
    mark = request.app, request.version
    draft = replace(winner.row.item.draft, type=winner.space)
    for fed in winner.fed:
        (met,) = fed.met
        if met is None:
            continue
        add = replace(new_item(draft, fed.queue, facts.owner, facts.at), transaction=mark)
        if fed.is_guest:
            yield from guests.offer(fed.queue, met, add, fed.allowance)
        else:
            yield from come(met, add)


def _goes_aside(facts: MoveFacts, winner: MetWinner) -> bool:
    """Return whether a winner is left out or dead-lettered; without a place for dead letters it is not."""
    if winner.there is None or _place(winner) not in TAKEN:
        return False
    if facts.on_taken is t.OnTaken.DEAD_LETTER:
        return facts.dead_letters is not None and facts.dead_letters.config.queueing
    return facts.on_taken is t.OnTaken.SKIP


def _dead_letter(request: MoveWinners, facts: MoveFacts, winner: MetWinner) -> tuple[Change, ...]:
    """Return what becomes of a winner that cannot have its id: nothing, or a dead letter under an id of its own."""
    if facts.dead_letters is None:
        return ()
    name = dead_letter_id(request, winner.row, facts.at, twice=winner.twice)
    return (_added(request, facts, winner.row, facts.dead_letters.name, name),)


def dead_letter_id(
    request: MoveWinners, row: t.WinnerRow, at: Millis, *, twice: bool = False
) -> ItemId:
    """Return the id of a dead letter; `twice` if there is one of another commit in the same moment."""
    winner = f"{t.name_of_transaction(request.app)}.{request.version}.{row.part}.{row.row}"
    return id_elsewhere(row.node, row.item.draft.id, at, winner, twice=twice)


def _moved(
    request: MoveWinners, facts: MoveFacts, ends: tuple[tuple[int, int, int], ...], aside: int
) -> t.Moved:
    if facts.on_taken is t.OnTaken.SKIP:
        return t.Moved(request.app, request.version, ends, skipped=aside)
    return t.Moved(request.app, request.version, ends, dead_lettered=aside)


def _with(reply: t.Committed | None, aside: Sequence[MetWinner]) -> t.Committed | None:
    """Report winners that were set aside to the requester."""
    if reply is None or not aside:
        return reply
    published, taken = reply.published - len(aside), reply.taken + len(aside)
    named = (*reply.named, *_taken(aside))[:NAMED]
    return replace(reply, published=published, taken=taken, named=named)


def _taking_its_place(
    request: MoveWinners, facts: MoveFacts, winner: MetWinner
) -> tuple[Change, ...]:
    """Return the changes of a winner: an item that has taken its place since it was judged is withdrawn, because the winner is committed."""
    item, there = winner.row.item, winner.there
    add = _added(request, facts, winner.row, winner.row.node, item.draft.id)
    place = _place(winner)
    if place is Place.LEAVE:
        return ()
    if there is None:
        return (add,)
    if place is Place.REPLACE:
        return (ReplacePayload(there, item.draft.payload, facts.owner, item.draft.headers),)
    return RemoveItem(there), replace(add, instead=there.seq)


def _added(
    request: MoveWinners, facts: MoveFacts, row: t.WinnerRow, node: NodeName, name: ItemId
) -> AddItem:
    item = row.item
    due = None if item.pause is None else later(facts.at, item.pause)
    expires = None if item.life is None else later(facts.at, item.life)
    draft = replace(item.draft, id=name)
    return AddItem(
        *(node, draft, facts.owner, facts.at, item.state, due, expires),
        transaction=(request.app, request.version),
    )


def resume(_request: ResumeMoves, facts: ResumeFacts) -> Decision:
    """Continue with the oldest commit that has winners to move."""
    then = None if facts.unmoved is None else MoveWinners(*facts.unmoved)
    return Decision(Done(), then=then)


# The id of a winner that becomes a dead letter because its own is taken.

HEAD: Final = 100
"""Characters that are kept of a name that is too long."""


def id_elsewhere(
    node: NodeName, name: ItemId, at: Millis, winner: str, *, twice: bool = False
) -> ItemId:
    """Return an id made of the node, the id and the moment of the commit.

    `winner` distinguishes winners; it is appended if that id exists already (`twice`), and if the
    whole would be longer than an ItemID can be: then only the beginning is kept.
    """
    whole = joined(node, name)
    found = f"{whole}.{at}.{winner}" if twice else f"{whole}.{at}"
    if len(found.encode()) > MAX_ID_LENGTH:
        found = f"{whole[:HEAD]}.{at}.{winner}"
    return ItemId(found)
