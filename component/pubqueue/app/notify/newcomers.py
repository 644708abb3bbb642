"""Addresses that sent presence recently: a worker sends its presence and subscribes, in either order.

Presence of strangers is not stored, because any address can send it. The latest are remembered for a
while, as many as there is room for. When one of them subscribes, it is known to be available, and so
are the other resources of its account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.model.entities import account_of

if TYPE_CHECKING:
    from pubqueue.model.entities import Jid

MAX_BYTES: Final = 256 * 1024
"""Approximate maximum of remembered bytes; the oldest are forgotten first."""

MAX_RESOURCES: Final = 100
"""Resources of one account that are remembered."""

BESIDE: Final = 200
"""Bytes that an address takes in addition to its letters."""


class Newcomers:
    """Full JIDs by account, the first to come first."""

    def __init__(self) -> None:
        self._of: dict[Jid, dict[Jid, None]] = {}
        self.byte_count = 0
        """The approximate total of bytes."""

    def came(self, jid: Jid) -> None:
        """Remember that the full JID is here."""
        account = account_of(jid)
        of = self._of.setdefault(account, {})
        if jid in of or jid == account:
            return
        of[jid] = None
        self.byte_count += _weight(jid)
        if len(of) > MAX_RESOURCES:
            self.left(next(iter(of)))
        while self.byte_count > MAX_BYTES:
            self.left(next(iter(next(iter(self._of.values())))))

    def left(self, jid: Jid) -> None:
        """Forget it."""
        account = account_of(jid)
        of = self._of.get(account, {})
        if jid not in of:
            return
        del of[jid]
        self.byte_count -= _weight(jid)
        if not of:
            del self._of[account]

    def of(self, account: Jid) -> tuple[Jid, ...]:
        """Return the remembered resources of the account."""
        return tuple(self._of.get(account, ()))


def _weight(jid: Jid) -> int:
    return 2 * len(jid) + BESIDE  # its account is stored as well
