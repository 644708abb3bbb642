"""A subscription of a connection: an address of its own, with a window and the messages that are not acknowledged yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.faces.stomp.subscribing import Mode

if TYPE_CHECKING:
    from pubqueue.faces.stomp.settling import Key
    from pubqueue.faces.stomp.subscribing import Wanted
    from pubqueue.model.entities import ItemId, Jid
    from pubqueue.model.notices import Announce, Deliver


class Handed(Struct, gc=False, eq=False):
    """A message that the client has to acknowledge."""

    subscription: Subscription
    item: ItemId
    token: int
    key: Key


class Subscription:
    """One SUBSCRIBE. It outlives its UNSUBSCRIBE as long as messages of it can be acknowledged."""

    def __init__(self, asked: Wanted, address: Jid) -> None:
        self.id = asked.id
        """The client's name for it."""
        self.mode, self.node, self.address = asked.mode, asked.destination.node, address
        self.is_queue = True
        self.handed: dict[ItemId, Handed] = {}
        """In the order in which they were sent."""
        self.early: list[Deliver | Announce] | None = []
        """Messages that have arrived before the RECEIPT of SUBSCRIBE was sent; None: it was."""
        self.is_ended = False
        """Whether there was an UNSUBSCRIBE."""

    def up_to(self, last: Handed) -> list[Handed]:
        """Return the messages that an ACK of this one applies to."""
        if self.mode is not Mode.CLIENT:
            return [last]
        found = []
        for one in self.handed.values():
            found.append(one)
            if one is last:
                return found
        return [last]
