"""What happens to items whose stored content is not what was published, to nodes with damaged settings, and to rows without a checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import GiveUp, NoteSums
from pubqueue.model.decision import Damaged, Decision, Done, Refusal, Request, refuse
from pubqueue.model.entities import NO_POLICY, AccessModel, NodeConfig, PublishModel, State
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
    """The next items without a checksum, with their payloads; or other rows, with the checksums that they get."""

    rows: tuple[tuple[Item, bytes], ...]
    others: tuple[tuple[str, tuple[int, str], int], ...] = ()


def compute_sums(request: ComputeSums, facts: SumFacts) -> Decision:
    """Note the checksum of what is stored now; another slice follows while there are more rows."""
    if not facts.rows and not facts.others:
        return Decision(Done())
    sums = tuple(
        [
            (item.seq, item.state is State.DONE, sum_of(item.id, payload, item.group, item.headers))
            for item, payload in facts.rows
        ]
    )
    return Decision(Done(), (NoteSums(sums, facts.others),), then=request)


# Nodes whose stored settings are not what was written. Nothing says which of them is wrong: so no request about the node is done, until an
# owner sets them again or deletes the node. What else has to go on, such as the end of locks, finds a node that is closed.

SETTINGS_DAMAGED: Final = refuse(
    Refusal.INTERNAL_FAULT,
    "the stored settings of the node are damaged: it is closed until an owner configures or deletes it",
)
APP_DAMAGED: Final = refuse(
    Refusal.INTERNAL_FAULT,
    "the stored mark of the app's last commit is damaged: nothing is staged or committed until an administrator aborts "
    "the version that comes next",
)
VERSION_DAMAGED: Final = refuse(
    Refusal.INTERNAL_FAULT,
    "what is stored of the version is damaged: nothing is staged or committed for it until all of it is aborted",
)
RECORD_DAMAGED: Final = refuse(
    Refusal.INTERNAL_FAULT,
    "the version is committed, but what is stored of it is damaged: the items that are not in their places yet wait until an "
    "administrator aborts the version",
)
ROW_DAMAGED: Final = refuse(Refusal.INTERNAL_FAULT, "what is stored under the name is damaged")


def closed(config: NodeConfig) -> NodeConfig:
    """Return the settings of a damaged node, without those that let anything in or out."""
    return replace(
        config,
        access_model=AccessModel.WHITELIST,
        publish_model=PublishModel.PUBLISHERS,
        subscribe=False,
        paused=True,
        publish_paused=True,
        policy=NO_POLICY,
        labels="",
    )
