"""An item: as it is stored, as a publisher hands it in, and what is known of its death. Values only: nothing here decides anything."""

from __future__ import annotations

from msgspec import Struct

from pubqueue.core.addresses import Jid  # noqa: TC001  # msgspec reads it
from pubqueue.core.model.choices import State  # noqa: TC001  # msgspec reads it
from pubqueue.core.model.names import NO_TIME, Headers, ItemId, Millis, NodeName


class DeadLetter(Struct, frozen=True, gc=False):
    """The record of an item's death: when, why, in which node if it was another one, and the last holder.

    `number` rises with every dead letter of the service.
    """

    number: int
    at: Millis
    reason: str
    origin: NodeName | None = None
    holder: Jid | None = None


class Item(Struct, frozen=True, gc=False):
    """An item as stored, without its payload.

    `holder` and `deadline` are set exactly while the item is locked. `token` is the last lock token
    of the item; tokens only rise. `acquired` counts its deliveries, `failed` the failed attempts,
    `released` the unlocks that count no failure. `avoid` is the last holder that released it. `due`
    is when a delayed item may be delivered; it stays set afterwards, as the sign that the item has
    been delayed already. `taken` is the time of the last delivery; of an item that is done, the time
    when it was. `aside` means that it is delayed
    only for the subscriber it avoids. `dead_letter` is set when the item dies, until it is redriven
    or removed, in a dead-letter node too. `transaction` is the app and the version that published
    it, if it came in a transaction.

    `group` is the item's group in the node, empty if it has none. `turn` is set while it is the
    group's turn with this item: it is ready, locked, or waits for another try; the number is its
    place in the order of ready items (`core.queue.groups`). `failure` is the last reason of a
    failure or a release since it was published or redriven. `size` is the number of bytes that it
    counts for (`core.quotas.weight`).
    """

    seq: int
    node: NodeName
    id: ItemId
    state: State
    publisher: Jid
    published: Millis
    priority: int = 0
    due: Millis | None = None
    expires: Millis | None = None
    acquired: int = 0
    failed: int = 0
    released: int = 0
    holder: Jid | None = None
    deadline: Millis | None = None
    token: int = 0
    avoid: Jid | None = None
    aside: bool = False
    taken: Millis | None = None
    headers: Headers = ()
    dead_letter: DeadLetter | None = None
    transaction: tuple[str, int] | None = None
    group: str = ""
    turn: int = 0
    failure: str | None = None
    size: int = 0

    @property
    def error(self) -> str:
        """Why it died, or else the reason of the last failure or release; empty if none was given."""
        return self.dead_letter.reason if self.dead_letter else self.failure or ""


class Draft(Struct, frozen=True, gc=False):
    """An item as a publisher hands it in. `id` is already chosen, by them or by the face.

    `type` is the namespace of the payload; `group` is the group that the item is of, empty for none.
    """

    id: ItemId
    payload: bytes
    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    headers: Headers = ()
    type: str = ""
    group: str = ""
