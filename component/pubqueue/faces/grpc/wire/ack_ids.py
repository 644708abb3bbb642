"""Ack ids: a text that names one lock, its item, its token and its holder. Pure.

They need no signature: a lock is settled in the name of its holder, and only if the account of the holder sends the request. A
forged id reaches only the sender's own locks.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Final

import msgspec

from pubqueue.model.entities import ItemId, Jid, account_of
from pubqueue.rules.settle_each import LockName

if TYPE_CHECKING:
    from pubqueue.model.entities import Item

MAX_LENGTH: Final = 8_192
"""The maximum characters of an ack id: ids of items and addresses have up to 1,023 bytes."""


class _Lock(msgspec.Struct, array_like=True, frozen=True, gc=False):
    item: str
    token: int
    account: str
    resource: str = ""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Lock).decode


def ack_id(item: Item) -> str:
    """Return the ack id of an item that is locked."""
    assert item.holder is not None
    account, _, resource = item.holder.partition("/")
    lock = _Lock(item.id, item.token, account, resource)
    return urlsafe_b64encode(_encode(lock)).decode().rstrip("=")


def lock_of(text: str, account: Jid) -> LockName | None:
    """Return the lock of an ack id, or None if the text is not an ack id, or one of another account."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        lock = _decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except (NotBase64, ValueError, msgspec.MsgspecError):
        return None
    holder = Jid(f"{lock.account}/{lock.resource}" if lock.resource else lock.account)
    if account_of(holder) != account or lock.token < 0:
        return None
    return LockName(ItemId(lock.item), lock.token, holder)
