"""Who is here: the resources that sent us directed presence.

Kept in memory, for servers do not replay presence to a component that reconnects; the timeouts of locks
cover what was missed. A full JID's own subscription needs no memory: its unavailable presence names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.core.expire import Leave
from pubqueue.core.model import bare

if TYPE_CHECKING:
    from pubqueue.core.model import Jid


class Resources:
    """The resources of each account that are known to be available."""

    def __init__(self) -> None:
        self._seen: dict[Jid, set[Jid]] = {}

    def available(self, jid: Jid) -> bool:
        """Note that the resource is here, and say whether that is news."""
        known = self._seen.setdefault(bare(jid), set())
        if jid in known:
            return False
        known.add(jid)
        return True

    def unavailable(self, jid: Jid) -> Leave:
        """Note that the resource has left; `last` only if it was the last one seen (row 21)."""
        account = bare(jid)
        known = self._seen.get(account, set())
        was_known = jid in known
        known.discard(jid)
        if not known:
            self._seen.pop(account, None)
        return Leave(jid, last=was_known and not known)
