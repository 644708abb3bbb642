"""Read what was published under a key: an account reads its own keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, KeyUsed

if TYPE_CHECKING:
    from pubqueue.core.model import Millis, NodeName, Principal
    from pubqueue.core.publishing.keys import UsedKey


class ReadUsedKey(Struct, frozen=True, gc=False):
    """Request the ids that the account has published to the node under this key."""

    by: Principal
    node: NodeName
    key: str


class UsedKeyFacts(Struct, frozen=True, gc=False):
    """The record of the key."""

    now: Millis
    used: UsedKey | None


def read_used_key(request: ReadUsedKey, facts: UsedKeyFacts) -> Decision:
    """Return the ids, or None if nothing was published under the key, or that is no longer remembered."""
    used = facts.used
    is_known = used is not None and used.until > facts.now
    return Decision(KeyUsed(request.node, used.ids if used is not None and is_known else None))
