"""The record of a settled lock: just enough to answer a repetition."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.model import seconds

if TYPE_CHECKING:
    from pubqueue.core.model import ItemId, Jid, Millis, NodeName

MAX_REMEMBERED: Final = seconds(3600)
"""The maximum time for which it is remembered: repetitions come soon, and each row takes space until then."""


class Settled(Struct, frozen=True, gc=False):
    """How a lock was settled, by its token, which is never reused. `whose` identifies node, item and account."""

    token: int
    whose: bytes
    verdict: str
    until: Millis


def whose(node: NodeName, item: ItemId, account: Jid) -> bytes:
    """Return the mark of an item and the account that settles it; names have no control characters, so it is unambiguous."""
    return blake2b(f"{node}\n{item}\n{account}".encode(), digest_size=16).digest()
