"""Notices to many addresses: they wait in queues, and become messages as the server accepts them (`send_queues`, `pace`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.faces.faults import fault
from pubqueue.faces.flow.send_queues import SendQueues
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.stream.expat_feeder import padding
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.faces.xmpp.xml.size_limits import MAX_STANZA_BYTES
from pubqueue.model.notices import Retracted, ToEach, for_subids

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.outbox import Outbox
    from pubqueue.faces.xmpp.stream.component import Component
    from pubqueue.faces.xmpp.stream.pace import Pace
    from pubqueue.model.entities import Jid, NodeName

log = structlog.get_logger(__name__)

SLICE: Final = 262_144
EACH: Final = 1024
"""Bytes of notices to many that are written in one turn; each message counts this much more, for its work."""

MAX_HEAD_LENGTH: Final = 8192
"""Bytes that the part of a message before the notice nearly always has at most."""


class ToMany:
    """Sends notices to many on one stream, some in each turn of the loop."""

    def __init__(self, jid: str, component: Component, pace: Pace, outbox: Outbox) -> None:
        self._jid, self._component = jid, component
        self.queues = SendQueues(partial(outbox.set_behind, self))
        self._pace = pace
        self._going = False

    def clear(self) -> None:
        """Drop the waiting notices: the stream is lost."""
        self.queues.clear()

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call when the server has accepted the notices to many of the node so far, or the stream is lost.

        The callback may add notices, so it is not called while these are being written.
        """
        if self.queues.has(node):
            self.queues.when_sent(node, partial(self._call_soon, call))
        else:
            self._component.flush()  # all earlier bytes have left when the echo returns
            call()

    def notify(self, many: ToEach) -> None:
        """Queue notices to many; the first are sent at once as there is room."""
        text, what = notices.rest(many.what, self._jid, fleeting=many.fleeting), many.what
        if (
            len(text) > MAX_STANZA_BYTES - MAX_HEAD_LENGTH
            and isinstance(what, Retracted)
            and len(what.ids) > 1
        ):
            half = len(what.ids) // 2
            for ids in (what.ids[:half], what.ids[half:]):
                self.notify(replace(many, what=replace(what, ids=ids)))
        elif self._component.ready:
            own = partial(self._own, many) if many.subids else None
            self.queues.add(what.node, many.to, text, padding(text), own)
            self.go_on()

    def _own(self, many: ToEach, to: Jid) -> tuple[bytes, int] | None:
        """Return the notice for an addressee that subscribes several times, with its white space."""
        subids = many.subids.get(to)
        if subids is None:
            return None
        what = for_subids(many.what, subids)
        text = notices.rest(what, self._jid, fleeting=many.fleeting)
        return text, padding(text)

    def go_on(self) -> None:
        """Send some of the waiting notices, and the others in the next turn, if there is room."""
        if not self._going:
            self._send_some()

    def _send_some(self) -> None:
        """Write a slice; then rest for as long as that took.

        The store works in its own thread, which gets hardly any of the interpreter's time beside a busy one.
        """
        self._going = False
        loop = self._component.loop
        left, began = SLICE, loop.time()
        while left > 0 and self._may_send():
            left -= EACH
            try:
                left -= self._send_one(*self.queues.next())
            except Exception as problem:  # one addressee misses it, the others do not
                log.error("notice.failed", notice="ToEach", **fault(problem))  # noqa: TRY400  # no payload
        if self._may_send():
            self._going = True
            loop.call_later(loop.time() - began, self._send_some)

    def _send_one(self, to: Jid, shared: bytes, white: int) -> int:
        """Write one message, and return its bytes."""
        text = notices.to_one(shared, to)
        head = notices.head(self._jid, to, new_id())
        self._component.write(head + text, white=max(white, padding(head + b'">')))
        byte_count = len(head) + len(text)
        self._pace.wrote(byte_count)
        return byte_count

    def _may_send(self) -> bool:
        """Return whether notices wait, and there is room for them between us and the server."""
        return bool(self.queues) and self._pace.has_room

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._component.loop.call_soon(call)
