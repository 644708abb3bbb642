"""Sends notices on the component stream to the addresses that are reached through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from pubqueue.faces.faults import fault
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.faces.xmpp.xml.size_limits import MAX_STANZA_BYTES
from pubqueue.model.entities import Level, account_of
from pubqueue.model.notices import Deliver, Retracted, ToEach, Unlocked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.faces.xmpp.stream.to_many import ToMany
    from pubqueue.model.entities import Jid
    from pubqueue.model.notices import Notice

log = structlog.get_logger(__name__)


class NoticeSender:
    """Sends notices on the component stream; `write` returns whether there is one."""

    def __init__(
        self,
        jid: str,
        write: Callable[[bytes, int], bool],
        many: ToMany,
        send_at_level: Callable[[Deliver], bool],
    ) -> None:
        self._jid = jid
        self._send_at_level = send_at_level
        self._home = f"@{jid}/"
        self._write = write
        self._many = many

    def claims(self, address: Jid) -> bool:
        """Return whether the address is not of the service's own accounts, which are connected to other faces."""
        # the first test is cheap and nearly always enough; but a resource may look like an account of ours
        return self._home not in f"{address}/" or not account_of(address).endswith(self._home[:-1])

    def send_notices(self, what: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Send the notices, in order, and return those for which there is no stream.

        Notices to many addresses follow as the server accepts them, and are lost with the stream.
        """
        unsent: list[Notice] = []
        for one in what:
            try:
                if type(one) is ToEach:
                    self._many.notify(self._beyond(one))
                elif not self._send(one):
                    unsent.append(one)
            except Exception as problem:  # as if it had been lost in transit: its lock times out
                kind = type(one.what if isinstance(one, ToEach) else one).__name__
                log.error("notice.failed", notice=kind, **fault(problem))  # noqa: TRY400  # no payload
        return unsent

    def _beyond(self, many: ToEach) -> ToEach:
        """Return the notices without the service's own accounts, which are on no server."""
        home = self._home
        if not any(home in f"{jid}/" for jid in many.to):
            return many
        return replace(many, to=tuple(jid for jid in many.to if self.claims(jid)))

    def _send(self, what: Notice) -> bool:
        if self._home in f"{what.to}/" and not self.claims(what.to):
            return False
        if type(what) is Deliver and what.level is not Level.UNACKNOWLEDGED:
            return self._send_at_level(what)
        message = notices.notice(what, self._jid, new_id)
        size = len(message)
        if size > MAX_STANZA_BYTES and isinstance(what, Retracted | Unlocked) and len(what.ids) > 1:
            half = len(what.ids) // 2
            ids = what.ids[:half], what.ids[half:]
            return all(self._send(replace(what, ids=part)) for part in ids)
        return self._write(message, size)
