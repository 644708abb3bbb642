"""A publish that feeds more copies than one commit may add: what is kept of it until all of them are in their queues.

The mark is written in the commit that decides the publish, and with it each message once. The copies are numbered: the first message in
each of the queues, then the second, and so on, so that each queue gets the messages in their order.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from pubqueue.core.model import Draft, Jid, Millis, NodeName


class MarkedPublish(Struct, frozen=True, gc=False):
    """What does not change while the copies are made: by whom, when, of how many messages, for which queues."""

    account: Jid
    at: Millis
    messages: int
    queues: tuple[NodeName, ...]

    @property
    def copies(self) -> int:
        """The number of places: some are empty, because the filter of their queue leaves the message out."""
        return self.messages * len(self.queues)


class Feeding(Struct, frozen=True, gc=False):
    """The row of a mark. `place` is the number of the next copy."""

    mark: str
    place: int
    what: bytes


class FedMessage(Struct, frozen=True, gc=False):
    """The row of one of its messages."""

    name: str
    draft: bytes


_MARKED: Final = msgspec.msgpack.Decoder(MarkedPublish)
_DRAFT: Final = msgspec.msgpack.Decoder(Draft)


def written(what: MarkedPublish | Draft) -> bytes:
    """Return it as it is kept."""
    return msgspec.msgpack.encode(what)


def marked(row: Feeding) -> MarkedPublish:
    """Return what a row keeps."""
    return _MARKED.decode(row.what)


def message(row: FedMessage) -> Draft:
    """Return the message that a row keeps."""
    return _DRAFT.decode(row.draft)


def name_of_message(mark: str, number: int) -> str:
    """Return the key of one of the messages of a mark."""
    return f"{mark}.{number}"
