"""For those who run queues: what they may do, who works on a queue, one of its items, and the service itself.

It is for owners of the node that is asked about, and for administrators of the service; all others are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.reading.overviews import Peeked, Power, Powers, ServiceState, WorkerPage

if TYPE_CHECKING:
    from pubqueue.core.model import Affiliation, Asker, Item, ItemId, Jid, Node, NodeName
    from pubqueue.core.nodes.access import CreationPolicy
    from pubqueue.core.reading.overviews import Worker

FOR: Final = {
    Power.SERVICE: "this is for administrators of the service",
    Power.NODES: "this is for owners of nodes and administrators of the service",
    Power.CREATE: "this is for those who own nodes here and may create others",
}
"""Whom each power is for, in words."""

OWNERS: Final = "this is for the node's owners and administrators of the service"


class AskPowers(Struct, frozen=True, gc=False):
    """Ask what the asker may do; with `needed`, only if that is among it."""

    by: Asker
    needed: Power | None = None


class PowersFacts(Struct, frozen=True, gc=False):
    """The first nodes that the asker manages, by name, and who may create any."""

    policy: CreationPolicy
    nodes: tuple[Node, ...]
    more: bool


class ReadWorkers(Struct, frozen=True, gc=False):
    """Ask for those who subscribe to the node behind the JID `after`, and what they hold."""

    by: Asker
    node: NodeName
    after: Jid | None = None


class WorkersFacts(Struct, frozen=True, gc=False):
    """The node, and some of those who subscribe to it."""

    node: Node | None
    affiliation: Affiliation
    workers: tuple[Worker, ...] = ()
    more: bool = False


class Peek(Struct, frozen=True, gc=False):
    """Look at one item of the node. That takes nothing and extends nothing."""

    by: Asker
    node: NodeName
    id: ItemId


class PeekFacts(Struct, frozen=True, gc=False):
    """The node and the item."""

    node: Node | None
    affiliation: Affiliation
    item: Item | None = None
    payload: bytes = b""


class AskService(Struct, frozen=True, gc=False):
    """Ask for the state of the service."""

    by: Asker


class ServiceFacts(Struct, frozen=True, gc=False):
    """That state."""

    state: ServiceState


def objection(by: Asker, node: Node | None, affiliation: Affiliation) -> Refusal | None:
    """Return why the asker may not oversee the node, or None."""
    if node is None:
        return Refusal.NODE_NOT_FOUND
    manages = access.may(access.standing(by, affiliation), Action.MANAGE, node)
    return None if manages else Refusal.FORBIDDEN


def ask_powers(request: AskPowers, facts: PowersFacts) -> Decision:
    """Say what the asker may do: to run nodes one has to own one, or to administer the service."""
    by = request.by
    runs = by.admin or bool(facts.nodes)
    held = {
        Power.SERVICE: by.admin,
        Power.NODES: runs,
        Power.CREATE: runs and access.may_create(by, facts.policy),
    }
    if request.needed is not None and not held[request.needed]:
        return refuse(Refusal.FORBIDDEN, FOR[request.needed])
    powers = tuple(power for power, has in held.items() if has)
    return Decision(Powers(powers, facts.nodes, facts.more))


def read_workers(request: ReadWorkers, facts: WorkersFacts) -> Decision:
    """Decide whether the asker may see who works on the node."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    return Decision(WorkerPage(facts.node, facts.workers, facts.more))


def peek(request: Peek, facts: PeekFacts) -> Decision:
    """Decide whether the asker may see the item."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    if facts.item is None:
        return refuse(Refusal.ITEM_NOT_FOUND, f"there is no item {request.id} in {request.node}")
    return Decision(Peeked(facts.node.name, facts.item, facts.payload))


def ask_service(request: AskService, facts: ServiceFacts) -> Decision:
    """Decide whether the asker may know of the service."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR[Power.SERVICE])
    return Decision(facts.state)
