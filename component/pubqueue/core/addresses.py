"""The addresses of one account, whatever protocol they use.

A face gives each entity an address: its account, followed by a slash and the name of the connection if the account
has several. XMPP's bare and full JIDs are such addresses unchanged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NewType

from msgspec import Struct

Jid = NewType("Jid", str)
"""A normalised address, bare or full."""

REMEMBERED: Final = 8192
"""Addresses, each of up to 3 KB: 40 MB in the worst case, if that many strangers have addresses of the maximum length."""


@lru_cache(maxsize=REMEMBERED)
def account_of(address: Jid) -> Jid:
    """Return the account that the address belongs to; for an account, the account itself."""
    return address.partition("/")[0]  # type: ignore[return-value]  # what is left of an address is one


def domain_of(address: Jid) -> str:
    """Return the domain of the address."""
    return account_of(address).rpartition("@")[2]


class Connection(Struct, frozen=True):
    """A connection of an account of the service itself: the word of its face, the number of its instance, its name there."""

    account: Jid
    word: str
    instance: int
    name: str

    @property
    def address(self) -> Jid:
        """Return its address, `name@service/word.INSTANCE.NAME`."""
        return Jid(f"{self.account}/{self.word}.{self.instance}.{self.name}")


def connection(address: Jid, service: Jid) -> Connection | None:
    """Return the connection that has this address, None if it is not a connection of an account of the service.

    Such an address is the service's own: servers send only in the name of their own domains.
    """
    account, _, resource = address.partition("/")
    word, _, rest = resource.partition(".")
    instance, _, name = rest.partition(".")
    if account.partition("@")[2] != service or not instance.isdecimal() or not name:
        return None
    return Connection(Jid(account), word, int(instance), name)


def covers(subscribed: Jid, principal: Jid) -> bool:
    """Return whether `principal` acts for `subscribed`: for an account any connection, otherwise exactly it.

    Two connections of one account are two entities (XEP-0060 6.1.6).
    """
    return principal == subscribed or (
        "/" not in subscribed and account_of(principal) == subscribed
    )
