"""Several publishes, retracts, unlocks and holds of one account, all or none: a client's transaction, a batch, an item with its follow-ups.

Each part is judged by its own rule, with the changes of the parts before it. The first that is refused refuses them all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, GiveUp, PutRow
from pubqueue.model.decision import (
    DecidedInParts,
    Decision,
    DoneTogether,
    Refusal,
    Refused,
    Request,
)
from pubqueue.rules.publication import MAX_BYTES, Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.trimming import TrimItems
from pubqueue.rules.waits import Hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.entities import NodeName, Principal


Part = Publish | Settle | Hold


class Together(Request, frozen=True, gc=False):
    """Do these parts in order, all or none, in one commit. Each may come from another connection of the same account."""

    by: Principal
    parts: tuple[Part, ...]


MAX_CHANGES: Final = 3_000
"""The maximum items that all parts add, remove or settle. A publish to a full plain node removes others, one to a topic feeds queues."""

ANOTHER_ACCOUNT: Final = Refused(Refusal.BAD_REQUEST, "all that is done together is of one account")


def names_of(part: Part) -> int:
    """Return how many items a part names, at least one, because a part without items is work too."""
    return max(1, len(part.drafts if isinstance(part, Publish) else part.ids))


def names_by_node(request: Together) -> Counter[NodeName]:
    """Return for each node how many of its items the parts name."""
    counts: Counter[NodeName] = Counter()
    for part in request.parts:
        counts[part.node] += names_of(part)
    return counts


def unfit(request: Together) -> Refused | None:
    """Refuse parts of several accounts, whatever is stored. A fault of one part is refused with that part."""
    account = request.by.account
    for at, part in enumerate(request.parts):
        if part.by.account != account:
            return replace(ANOTHER_ACCOUNT, part=at)
    return None


def part_of_many(part: Part) -> Part:
    """Return the part as it is done with others: the queues of guests count for nothing in their commit."""
    return replace(part, guests_follow=True) if isinstance(part, Publish) else part


class Volume(Struct):
    """The changes of the parts so far: items, and bytes of payloads. A publish may feed many queues; those of guests follow."""

    items: int = 0
    bytes: int = 0

    def exceeded_by(self, decision: Decision) -> Refused | None:
        """Add the changes of a part; refuse it if they are too many for one commit, because others wait for it."""
        self.items += sum(type(change) is not PutRow for change in decision.changes)
        adds = [change for change in decision.changes if type(change) is AddItem]
        for change in decision.changes:
            if type(change) is GiveUp:
                adds += change.copies
                self.items += len(change.copies)
        self.bytes += sum(len(change.draft.payload) for change in adds)
        if self.items <= MAX_CHANGES and self.bytes <= MAX_BYTES:
            return None
        words = f"what is done together changes up to {MAX_CHANGES} items and {MAX_BYTES} bytes, those in queues that are fed too"
        return Refused(Refusal.TOO_MANY_ITEMS, words, MAX_CHANGES)


def together(request: Together, decisions: Sequence[Decision]) -> Decision:
    """Combine the decisions of the parts, each made with the changes of the parts before; none follows a refused one.

    If several nodes are to be trimmed, the reaper continues with those after the first.
    """
    for at, decision in enumerate(decisions):
        if isinstance(decision.reply, Refused):
            return Decision(replace(decision.reply, part=at))
    reply = DoneTogether(tuple([decision.reply for decision in decisions]))
    trims = (one.then for one in decisions if isinstance(one.then, TrimItems))
    first = next(trims, None)
    return DecidedInParts(
        reply,
        tuple([change for decision in decisions for change in decision.changes]),
        tuple([notice for decision in decisions for notice in decision.notices]),
        None if first is None else replace(first, reply=reply),
        sum(decision.work for decision in decisions),
        tuple([one for decision in decisions for one in decision.beside]),
        tuple([pair for pair in zip(request.parts, decisions, strict=True) if pair[1].changes]),
    )
