"""What an account may store here: nodes, items and bytes. The rule is `core.allowance`.

The account that created a node pays for it and for all that is in it: items that wait, are locked, delayed or dead. Items that
are staged for a commit count for their publisher until then, with bounds of their own (`transactions.model.Limits`). An item that
moves from one node to another moves from one account to the other; if both nodes belong to the same account, no bound is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.core.model import Headers, Jid


def weight(payload: bytes, headers: Headers) -> int:
    """Return how many bytes an item counts for: its payload, and the names and values of its headers."""
    if not headers:
        return len(payload)
    header_bytes = sum(_byte_count(name) + _byte_count(value) for name, value in headers)
    return len(payload) + header_bytes


def _byte_count(text: str) -> int:
    """Return its bytes; text that no store can encode is refused there and not here."""
    return len(text.encode(errors="surrogatepass"))


class Holding(Struct, frozen=True, gc=False):
    """How many existing nodes an account has created, and what is in them: items, and their bytes."""

    account: Jid
    nodes: int = 0
    items: int = 0
    bytes: int = 0

    def more(self, nodes: int, items: int, size: int) -> Holding:
        """Return the sum of it and this much more, or less."""
        return Holding(self.account, self.nodes + nodes, self.items + items, self.bytes + size)


class Quota(Struct, frozen=True, gc=False):
    """How many nodes an account may have created, and how many items and bytes may be in them together; 0 means no limit."""

    nodes: int = 10_000
    items: int = 4_000_000
    bytes: int = 4 << 30


USUAL: Final = Quota()
"""No honest user reaches it: it is what all publishers together may have staged, and ten thousand nodes."""


class Quotas(Struct, frozen=True):
    """The quota of every account: `of` some, by bare JID or by domain, and the default of all others."""

    usual: Quota = USUAL
    others: Mapping[str, Quota] = {}

    def of(self, account: Jid) -> Quota:
        """Return the quota of an account: the one for its JID, otherwise the one for its domain."""
        if not self.others:
            return self.usual
        return self.others.get(account) or self.others.get(account.rpartition("@")[2]) or self.usual


DEFAULTS: Final = Quotas()
