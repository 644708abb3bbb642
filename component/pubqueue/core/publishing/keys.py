"""Keys of publishes: the key in a request, and the record of a key that was used."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.model import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pubqueue.core.model import Draft, ItemId, Jid, Millis, NodeName

MAX_REMEMBERED: Final = seconds(604_800)
"""The maximum time for which a key is remembered: a week."""

MAX_KEY_LENGTH: Final = 255
"""The maximum bytes of a key."""

MAX_IDS: Final = 65_536
"""The maximum bytes of all ids of a publish with a key: they are stored with it, and read for each repetition."""

MAX_KEPT: Final = 64 << 20
"""The maximum bytes that the keys of one account may count: some 300,000 keys of single items."""

ROW: Final = 200
"""The bytes that a key counts, without its ids."""

TYPE: Final = "content-type"
"""The header with the type of a payload, for payloads that do not contain it themselves."""


class PublishKey(Struct, frozen=True, gc=False):
    """The key under which an account's publish to a node is done once.

    For the time `remember` after the first publish, a repetition gets the same answer. With `strict` a repetition must have
    the same contents.
    """

    name: str
    remember: Millis
    strict: bool = False


class UsedKey(Struct, frozen=True, gc=False):
    """A key that was used, until when it is remembered, and the answer.

    `mark` identifies account, node and key, `content` the published contents; `size` is the bytes that the row counts.
    """

    mark: str
    account: Jid
    content: bytes
    until: Millis
    size: int
    ids: tuple[ItemId, ...]
    known: tuple[ItemId, ...]


class KeyTotal(Struct, frozen=True, gc=False):
    """The bytes that all keys of an account count."""

    account: Jid
    bytes: int


class KeyFacts(Struct, frozen=True, gc=False):
    """The record of the key, the bytes of all the account's keys, and the digest of the contents of this publish."""

    used: UsedKey | None
    total: KeyTotal | None
    content: bytes


def mark_of_key(account: Jid, node: NodeName, key: str) -> str:
    """Return the mark of an account's key at a node; names have no control characters, so it is unambiguous."""
    return blake2b(f"{account}\n{node}\n{key}".encode(), digest_size=16).hexdigest()


def content_of(drafts: Iterable[Draft], fingerprint: Callable[[bytes], bytes]) -> bytes:
    """Return a digest of payloads and their types, without their ids, which may be new in a repetition."""
    hashed = blake2b(digest_size=16)
    for draft in drafts:
        kind = next((value for name, value in draft.headers if name.lower() == TYPE), "")
        hashed.update(fingerprint(draft.payload))
        hashed.update(f"{kind}\n".encode())
    return hashed.digest()


def size_of_ids(ids: Sequence[ItemId]) -> int:
    """Return how many bytes the ids have."""
    return sum(len(each.encode()) for each in ids)
