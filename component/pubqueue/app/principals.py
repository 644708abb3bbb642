"""Principals: an account with its rights by the service's own settings, the same for every face."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pubqueue.core.addresses import account_of
from pubqueue.core.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.core.model import Jid

REMEMBERED = 4096
"""Addresses; the same ones ask again and again."""


class Principals:
    """Makes principals of addresses that a face has proven: administrators or not, local or not.

    `admins` are accounts, `home` is the domain whose accounts are local.
    """

    def __init__(self, *, admins: Iterable[Jid] = (), home: str) -> None:
        self._admins = frozenset(admins)
        self._home = home
        self._anonymous: frozenset[str] = frozenset()
        self._rosters: frozenset[str] = frozenset()
        self._made = lru_cache(maxsize=REMEMBERED)(self._make)
        self.of: Callable[[Jid], Principal] = self._made

    def appoint(self, admins: Iterable[Jid]) -> None:
        """Let these be the administrators from now on."""
        self._admins = frozenset(admins)
        self._made.cache_clear()

    def bar(self, anonymous: Iterable[str]) -> None:
        """Let the accounts of these domains be anonymous from now on."""
        self._anonymous = frozenset(anonymous)
        self._made.cache_clear()

    def grant(self, domains: Iterable[str]) -> None:
        """Let the rosters of the accounts of these domains, and no others, be there to be asked for from now on."""
        self._rosters = frozenset(domains)
        self._made.cache_clear()

    def _make(self, address: Jid) -> Principal:
        account = account_of(address)
        domain = account.rpartition("@")[2]
        return Principal(
            address,
            admin=account in self._admins,
            local=domain == self._home,
            rosters=domain in self._rosters,
            anonymous=domain in self._anonymous,
        )

    def service(self, address: Jid) -> Principal:
        """Return the service itself, by its own address: what its operator has configured may be done."""
        return Principal(address, admin=True)
