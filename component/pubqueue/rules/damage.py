"""What happens to items whose stored content is not what was published, and to rows whose checksum is not known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import GiveUp, NoteSums
from pubqueue.model.decision import Damaged, Decision, Done, Request
from pubqueue.model.entities import State
from pubqueue.model.notices import Unlocked
from pubqueue.model.sums import DAMAGED, has_sound_head, is_damaged, is_sound, sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, Millis, Node

SLICE: Final = 500
"""Rows whose checksum is computed in one step."""

ROOM: Final = 4 << 20
"""Bytes of their payloads, likewise."""


def split(
    rows: Iterable[tuple[Item, bytes]],
) -> tuple[list[tuple[Item, bytes]], list[Item]]:
    """Return the rows whose content is what was published, and the items of the others."""
    sound: list[tuple[Item, bytes]] = []
    damaged: list[Item] = []
    for row in rows:
        item, payload = row
        if is_sound(item.sum, payload) and has_sound_head(item) and not is_damaged(item):
            sound.append(row)
        else:
            damaged.append(item)
    return sound, damaged


class EndDamaged(Request, frozen=True, gc=False):
    """End the life of the items of these numbers, whose content was found to be damaged."""

    seqs: tuple[int, ...]


class DamageFacts(Struct, frozen=True, gc=False):
    """Those of the items that are still damaged, with their nodes."""

    now: Millis
    found: tuple[tuple[Item, Node], ...]


def end_damaged(_request: EndDamaged, facts: DamageFacts) -> Decision:
    """Let the items die where they are: in a dead-letter node, or in the queues that a plain one feeds, they would be work again.

    In a plain node they stay, and are left out of what is sent.
    """
    changes: list[Change] = []
    notices = []
    for item, node in facts.found:
        if node.config.queueing and item.state is not State.DEAD:
            changes.append(GiveUp(item, facts.now, DAMAGED, item.failed, None))
            if item.holder is not None:
                notices.append(Unlocked(item.holder, item.node, (item.id,)))
    names = tuple([(item.node, item.id) for item, _ in facts.found])
    return Decision(Damaged(names), tuple(changes), tuple(notices))


class ComputeSums(Request, frozen=True, gc=False):
    """Compute the checksums of rows that an earlier version has stored, slice by slice."""


class SumFacts(Struct, frozen=True, gc=False):
    """The next rows without a checksum, with their payloads."""

    rows: tuple[tuple[Item, bytes], ...]


def compute_sums(request: ComputeSums, facts: SumFacts) -> Decision:
    """Note the checksum of what is stored now; another slice follows while there are more rows."""
    if not facts.rows:
        return Decision(Done())
    sums = tuple(
        [
            (item.seq, item.state is State.DONE, sum_of(item.id, payload, item.group, item.headers))
            for item, payload in facts.rows
        ]
    )
    return Decision(Done(), (NoteSums(sums),), then=request)
