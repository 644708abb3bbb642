"""How the addresses of one account belong together, whatever protocol they come by.

A face gives each entity an address: its account, and after a slash which of the account's connections it is, if it
is one of several. XMPP's bare and full JIDs are such addresses as they stand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NewType

Jid = NewType("Jid", str)
"""A normalised address, bare or full."""

REMEMBERED: Final = 8192
"""Addresses, each of 3 KB at most: 40 MB in the worst case, if that many strangers have the longest there are."""


@lru_cache(maxsize=REMEMBERED)
def account_of(address: Jid) -> Jid:
    """Return the account that the address belongs to; an account's own is itself."""
    return address.partition("/")[0]  # type: ignore[return-value]  # what is left of an address is one


def covers(subscribed: Jid, principal: Jid) -> bool:
    """Return whether `principal` speaks for `subscribed`: for an account any connection, else exactly it.

    Two connections of one account are two entities (XEP-0060 6.1.6).
    """
    return principal == subscribed or (
        "/" not in subscribed and account_of(principal) == subscribed
    )
