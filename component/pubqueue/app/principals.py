"""Principals: an account with its rights by the service's own settings, the same for every face."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pubqueue.model.entities import Principal, account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.model.entities import Jid

REMEMBERED = 4096
"""The maximum number of addresses whose principals are cached."""


class Principals:
    """Makes principals of addresses that a face has authenticated: administrators or not, local or not.

    `admins` are accounts; the accounts of the domain `home` are local. All parts of a process share one instance, so a
    change of the settings applies to all of them.
    """

    def __init__(self, *, admins: Iterable[Jid] = (), home: str) -> None:
        self._admins = frozenset(admins)
        self._home = home
        self._local: frozenset[Jid] = frozenset()
        self._anonymous: frozenset[str] = frozenset()
        self._rosters: frozenset[str] = frozenset()
        self._made = lru_cache(maxsize=REMEMBERED)(self._make)
        self.of: Callable[[Jid], Principal] = self._made

    def appoint(self, admins: Iterable[Jid]) -> None:
        """Set the administrators."""
        self._admins = frozenset(admins)
        self._made.cache_clear()

    def welcome(self, accounts: Iterable[Jid]) -> None:
        """Set the accounts that are local whatever their domain."""
        self._local = frozenset(accounts)
        self._made.cache_clear()

    def bar(self, anonymous: Iterable[str]) -> None:
        """Set the domains whose accounts are anonymous."""
        self._anonymous = frozenset(anonymous)
        self._made.cache_clear()

    def grant(self, domains: Iterable[str]) -> None:
        """Set the domains whose accounts' rosters can be requested."""
        self._rosters = frozenset(domains)
        self._made.cache_clear()

    def _make(self, address: Jid) -> Principal:
        account = account_of(address)
        domain = account.rpartition("@")[2]
        return Principal(
            address,
            admin=account in self._admins,
            local=domain == self._home or account in self._local,
            rosters=domain in self._rosters,
            anonymous=domain in self._anonymous,
        )

    def service(self, address: Jid) -> Principal:
        """Return the principal of the service itself, which may do what its operator has configured."""
        return Principal(address, admin=True)
