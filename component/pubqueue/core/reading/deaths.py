"""Why the dead items of a node have died: reasons with their counts, the most frequent first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.reading.inspect import OWNERS, objection
from pubqueue.core.reading.reasons import ANY, shape
from pubqueue.core.reading.summaries import ReasonCount, ReasonPage

if TYPE_CHECKING:
    from pubqueue.core.model import Affiliation, Item, Node, NodeName, Principal

SLICE: Final = 500
"""Dead items that are looked at in one step."""

LOOKED_AT: Final = 50_000
"""Dead items that are looked at for one answer, in steps between which other readers are served."""

MAX_SHAPES: Final = 500
"""Reasons that are counted separately; any further reason is counted under `*`."""

PAGE: Final = 50
"""Reasons in one answer."""


class ReadReasons(Struct, frozen=True, gc=False):
    """Request the reasons after the reason `after`; `known` are the counts of the steps before, after the number `behind`."""

    by: Principal
    node: NodeName
    after: str | None = None
    most: int | None = None
    known: tuple[ReasonCount, ...] = ()
    behind: int = 0
    looked: int = 0


class ReasonFacts(Struct, frozen=True, gc=False):
    """The node, and the next of its dead items."""

    node: Node | None
    affiliation: Affiliation
    items: tuple[Item, ...] = ()


def read_reasons(request: ReadReasons, facts: ReasonFacts) -> Decision:
    """Count a step, and answer after the last one."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    known, looked = _counted(request.known, facts.items), request.looked + len(facts.items)
    goes_on = len(facts.items) == SLICE
    ordered = sorted(known, key=lambda one: (-one.count, one.reason))
    reply = _page(request, facts.node.name, ordered, looked, whole=not goes_on)
    if not goes_on or looked >= LOOKED_AT:
        return Decision(reply)
    then = replace(request, known=known, behind=facts.items[-1].seq, looked=looked)
    return Decision(reply, then=then)


def _counted(known: tuple[ReasonCount, ...], items: tuple[Item, ...]) -> tuple[ReasonCount, ...]:
    """Return the counts including these items."""
    counts = {one.reason: one for one in known}
    for item in items:
        letter = item.dead_letter
        if letter is None:
            continue
        name = shape(letter.reason)
        if name not in counts and len(counts) >= MAX_SHAPES:
            name = ANY
        before = counts.get(name)
        if before is None:
            counts[name] = ReasonCount(name, 1, letter.at, letter.at)
        else:
            first, last = min(before.first, letter.at), max(before.last, letter.at)
            counts[name] = ReasonCount(name, before.count + 1, first, last)
    return tuple(counts.values())


def _page(
    request: ReadReasons, node: NodeName, ordered: list[ReasonCount], looked: int, *, whole: bool
) -> ReasonPage:
    at = next((n for n, one in enumerate(ordered, 1) if one.reason == request.after), 0)
    room = PAGE if request.most is None else max(1, min(request.most, PAGE))
    shown = tuple(ordered[at : at + room])
    return ReasonPage(node, shown, looked, more=len(ordered) > at + room, whole=whole)
