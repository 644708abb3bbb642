"""Read the event log, items and nodes; trim the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import ForgetEvents
from pubqueue.model.decision import Decision, Done, Read, Refusal, Request, refuse
from pubqueue.model.entities import State
from pubqueue.model.replies import MAX_BYTES, Trimmed
from pubqueue.rules import access
from pubqueue.rules.access import Action

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.model.entities import Affiliation, ItemId, Millis, Node, NodeName, Principal
    from pubqueue.model.replies import EventPage, ItemPage, NodePage


# Read the event log, items and nodes. Looking takes nothing and changes nothing.
#
# Owners, publishers and administrators may; a node's settings are for its owners alone. Without the name
# of a node, all those that the principal may read are read.


class ReadEvents(Read, frozen=True, gc=False):
    """Request events numbered after `after` up to `until`: of one node, or of all that the principal may read.

    `item`: only those of items with this id.
    """

    node: NodeName | None = None
    after: int = 0
    until: int | None = None
    max: int | None = None
    item: ItemId | None = None


class ReadItems(Read, frozen=True, gc=False):
    """Request items numbered after `after` up to `until`: all, or those in one state.

    With DEAD they are those that died here or were moved here dead, and the numbers are those of
    their dead letters. Then `reason` selects those with matching reasons (`rules.dead_letters`).
    With DONE they are those that the queue keeps although they are done; without a state these are left out.
    `room` is the number of bytes of payload that the face can put into one answer.
    """

    node: NodeName
    after: int = 0
    until: int | None = None
    max: int | None = None
    state: State | None = None
    payloads: bool = True
    room: int = MAX_BYTES
    reason: str = ""


class Counting(Struct, frozen=True, gc=False):
    """How far the items of a long node are counted: those in `state` up to the place `behind`, None if all are."""

    node: NodeName
    queued: int = 0
    dead: int = 0
    state: State | None = State.QUEUED
    behind: object = None


class ReadNodes(Read, frozen=True, gc=False):
    """Request nodes after the name `after`, with their counts. A long node is counted in slices, up to `counted` so far.

    `managed`: only those that the principal manages. `containing`: only those with this in their names, ignoring case;
    one answer examines a limited number of nodes and reports how far it got. `only`: only these.
    """

    after: NodeName | None = None
    max: int | None = None
    counted: Counting | None = None
    managed: bool = False
    containing: str = ""
    only: tuple[NodeName, ...] | None = None


class NodeAccess(Struct, frozen=True, gc=False):
    """A node, and the principal's affiliation."""

    node: Node
    affiliation: Affiliation
    subscribed: bool = False


class ReadFacts(Struct, frozen=True, gc=False):
    """The requested node, or any readable one, and a page: None if nothing may be read.

    `then` is the request to continue with if there is more to count before there is a page.
    """

    nodes: tuple[NodeAccess, ...]
    page: EventPage | ItemPage | NodePage | None
    then: ReadNodes | None = None


def readable(by: Principal, nodes: Iterable[NodeAccess]) -> list[Node]:
    """Return those of the nodes that the principal may read."""
    return [
        known.node
        for known in nodes
        if access.may(access.standing_of(by, known.affiliation), Action.OBSERVE, known.node)
    ]


def owns(by: Principal, known: NodeAccess) -> bool:
    """Return whether the principal may see the settings of the node."""
    return access.may(access.standing_of(by, known.affiliation), Action.MANAGE, known.node)


def read(request: ReadEvents | ReadItems | ReadNodes, facts: ReadFacts) -> Decision:
    """Decide whether the principal may have the page."""
    named = not isinstance(request, ReadNodes) and request.node is not None
    if named and not facts.nodes:
        return refuse(Refusal.NODE_NOT_FOUND)
    if named:
        known = facts.nodes[0]
        standing = access.standing_of(request.by, known.affiliation)
        if (closed := access.barred(standing, known.node, known=known.subscribed)) is not None:
            return refuse(closed)
    if not (request.by.admin or readable(request.by, facts.nodes)):
        return refuse(Refusal.FORBIDDEN, "reading is for owners and publishers of a node")
    if facts.then is not None:
        return Decision(Done(), then=facts.then)
    if facts.page is None:
        return refuse(Refusal.FORBIDDEN, "reading is for owners and publishers of a node")
    return Decision(facts.page)


# Trim the event log: by age and by size, in slices, so that no batch takes long.

TRIM_SLICE: Final = 5_000
"""Up to how many events one batch forgets."""


class Trim(Request, frozen=True, gc=False):
    """Forget events that are older than `kept_for`, and those beyond the newest `kept`."""

    kept_for: Millis
    kept: int


class TrimFacts(Struct, frozen=True, gc=False):
    """The ends of the log, and the last of its oldest SLICE events that is too old, if one is."""

    oldest: int
    newest: int
    aged: int | None


def trim(request: Trim, facts: TrimFacts) -> Decision:
    """Decide which events are removed. Numbers have no gaps, so the size of the log is a difference."""
    wanted = max(facts.aged or 0, facts.newest - request.kept)
    through = min(wanted, facts.oldest + TRIM_SLICE - 1, facts.newest - 1)
    if through < facts.oldest:
        return Decision(Trimmed(more=False))
    return Decision(
        Trimmed(more=through - facts.oldest + 1 == TRIM_SLICE), (ForgetEvents(through),)
    )
