"""List the nodes whose items are pushed to an endpoint in their labels: for the workers that push."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.pushing.model import PushedNodes

if TYPE_CHECKING:
    from pubqueue.core.model import Node, NodeName, Principal


class ListPushed(Struct, frozen=True, gc=False):
    """Request nodes with the label `labels.PUSHED`, up to `most` after a name; only the service itself does."""

    by: Principal
    after: NodeName | None = None
    most: int = 500


class ListPushedFacts(Struct, frozen=True, gc=False):
    """The nodes, one more than requested if there are more."""

    nodes: tuple[Node, ...]


def list_pushed(request: ListPushed, facts: ListPushedFacts) -> Decision:
    """Return a page of the nodes."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    more = len(facts.nodes) > request.most
    return Decision(PushedNodes(facts.nodes[: request.most], more))
