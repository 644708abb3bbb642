"""Read what one holds: an address reads the items of a queue that are locked to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, Taken

if TYPE_CHECKING:
    from pubqueue.core.model import Item, NodeName, Principal


class ReadHeld(Struct, frozen=True, gc=False):
    """Ask for the items of the node that are locked to exactly the principal's address; the first of very many."""

    by: Principal
    node: NodeName


class HeldFacts(Struct, frozen=True, gc=False):
    """The items, with their payloads."""

    items: tuple[tuple[Item, bytes], ...]


def read_held(request: ReadHeld, facts: HeldFacts) -> Decision:
    """Return the items, the oldest first."""
    return Decision(Taken(request.node, facts.items))
