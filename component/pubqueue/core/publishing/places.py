"""What a published item becomes in a node: its place, its lifetime, and the limits for any publisher."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from pubqueue.core.changes import AddItem, Change, ReplacePayload
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.headers import excess
from pubqueue.core.lifecycle import waiting
from pubqueue.core.model import State, later, seconds
from pubqueue.core.queue.publication import Known

if TYPE_CHECKING:
    from pubqueue.core.model import Draft, Headers, Item, Jid, Millis, Node, NodeConfig

MAX_COPIES: Final = 2_000
MAX_BYTES: Final = 32 << 20
"""The maximum items, and bytes of payloads, that one publish, or one death, adds to all fed queues together: others wait for this commit."""


@unique
class Place(Enum):
    """What a published item becomes in a queue."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    ADD = auto()
    LEAVE = auto()
    """The work already exists or is done: nothing changes."""
    REPLACE = auto()
    """Its payload replaces that of an unlocked item."""
    BUSY = auto()
    DEAD = auto()


# fmt: off
PLACES: Final[dict[tuple[Known, State | None], Place]] = {
    (Known.NEW,      None):          Place.ADD,
    (Known.FINISHED, None):          Place.LEAVE,
    (Known.SAME,     State.QUEUED):  Place.LEAVE,
    (Known.SAME,     State.DELAYED): Place.LEAVE,
    (Known.SAME,     State.LOCKED):  Place.LEAVE,
    (Known.SAME,     State.DEAD):    Place.LEAVE,
    (Known.OTHER,    State.QUEUED):  Place.REPLACE,
    (Known.OTHER,    State.DELAYED): Place.REPLACE,
    (Known.OTHER,    State.LOCKED):  Place.BUSY,
    (Known.OTHER,    State.DEAD):    Place.DEAD,
}

TAKEN: Final[dict[Place, tuple[Refusal, str]]] = {
    Place.BUSY: (Refusal.ITEM_LOCKED, "item {} is in flight"),
    Place.DEAD: (Refusal.ITEM_EXISTS, "item {} is dead here: redrive or retract it"),
}
"""The places that refuse an item, with the text about its id."""
# fmt: on


def misfit(size: int, space: str, headers: Headers, config: NodeConfig) -> Refused | None:
    """Refuse an item that the node's settings do not allow for any publisher."""
    if size > config.max_payload_size:
        return Refused(Refusal.PAYLOAD_TOO_BIG, limit=config.max_payload_size)
    if not size:
        required = config.queueing or config.deliver_payloads
        return Refused(Refusal.PAYLOAD_REQUIRED) if required else None
    if config.type and space != config.type:  # XEP-0060 7.1.3.6
        reason = f"payloads of this node are in the namespace {config.type}"
        return Refused(Refusal.WRONG_PAYLOAD, reason)
    if headers and (too_much := excess(headers)) is not None:
        return Refused(Refusal.HEADERS_TOO_BIG, too_much)
    return None


def placed(place: Place, item: Item | None, add: AddItem) -> list[Change]:
    """Return the changes of one draft in a queue: none for work that exists or is done."""
    if place is Place.ADD:
        return [add]
    if place is Place.REPLACE and item is not None:
        return [ReplacePayload(item, add.draft.payload, add.publisher, add.draft.headers)]
    return []


def new_item(draft: Draft, node: Node, publisher: Jid, now: Millis) -> AddItem:
    """Return the change that adds a draft to a node as a new item."""
    state, due = waiting(now, draft.delay)
    life = life_of(draft, node)
    expires = None if life is None else later(now, life)
    return AddItem(node.name, draft, publisher, now, state, due, expires)


def life_of(draft: Draft, node: Node) -> Millis | None:
    """Return the item's lifetime: the shorter of the publisher's and the node's."""
    expire = node.config.item_expire
    if expire is None:
        return draft.ttl
    return seconds(expire) if draft.ttl is None else min(draft.ttl, seconds(expire))
