"""Notices to many addresses, at a pace that the server can read."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.faces.flow import SendQueues
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.stream.expat import padding
from pubqueue.faces.xmpp.xml.stanza import MAX_STANZA_BYTES, attribute, new_id
from pubqueue.logs import fault
from pubqueue.model.entities import NUMBER
from pubqueue.model.notices import Retracted, ToEach, for_subids

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pubqueue.engine.outbox import Outbox
    from pubqueue.faces.xmpp.stream.component import Component
    from pubqueue.model.entities import Jid, NodeName


# Notices to many addresses: they wait in queues, and become messages as the server accepts them (`send_queues`, `pace`).

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


# Measures how far the server has read: the service sends itself stanzas, which return after the server has handled everything before them.
#
# A busy server may hold megabytes of accepted data in its buffers for seconds, and every answer waits after
# them. So only a limited number of bytes of notices is sent beyond the last echo. If a server never sends an echo, there is no limit.

EVERY: Final = 65_536
"""Bytes of notices from one echo to the next."""

AHEAD: Final = 131_072
"""Bytes of notices to many without an echo above which writing pauses."""

_NAME: Final = re.compile(f"told-{NUMBER}")


class FlowProbe:
    """Counts the bytes of notices on one stream. Before the first echo, it is not known whether the server sends any."""

    def __init__(self) -> None:
        self._written = 0
        self._marked = 0
        self._back: int | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether so many bytes are in transit that writing has to wait for an echo."""
        return self._back is not None and self._written - self._back > AHEAD

    def wrote(self, byte_count: int) -> str | None:
        """Count written bytes; return the name of an echo that should follow them, if one is due."""
        self._written += byte_count
        if self._written - self._marked < EVERY:
            return None
        self._marked = self._written
        return f"told-{self._written}"

    def came_back(self, name: str) -> None:
        """Note an echo."""
        found = _NAME.fullmatch(name)
        if found is not None and int(found[1]) <= self._written:
            self._back = max(self._back or 0, int(found[1]))

    def give_up(self) -> None:
        """Stop waiting for the open echoes."""
        self._back = None


# How fast bulk data may be written to one stream: as far ahead as the server's echoes allow (`flow_probe`).
#
# Notices to many and the answers to reads go at this pace, so that other stanzas do not wait for
# megabytes before them.

PROBE_TIMEOUT: Final = 5.0
"""Seconds to wait for an echo."""


class Pace:
    """Counts written bytes; `on_probe` is called when more may be written."""

    def __init__(self, jid: str, component: Component, on_probe: Callable[[], None]) -> None:
        self._jid, self._component, self._on_probe = jid, component, on_probe
        self._probe = FlowProbe()
        self._patience: asyncio.TimerHandle | None = None

    @property
    def has_room(self) -> bool:
        """Whether more may be written now."""
        return self._component.has_room and not self._probe.is_awaited

    @property
    def may_read(self) -> bool:
        """Whether a large answer may be written: there is room, or no stream on which it would be written."""
        return self.has_room or not self._component.ready

    def clear(self) -> None:
        """Restart: the stream is lost."""
        self._probe = FlowProbe()

    def wrote(self, byte_count: int) -> None:
        """Count written bytes, and at intervals send ourselves a stanza that needs no answer."""
        if (name := self._probe.wrote(byte_count)) is None:
            return
        me = attribute(self._jid)
        self._component.write(f'<iq type="result" id="{name}" from="{me}" to="{me}"/>'.encode())
        self._wait()

    def _wait(self) -> None:
        """Wait for the next echo, up to `PROBE_TIMEOUT` from now on."""
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._component.loop.call_later(PROBE_TIMEOUT, self._time_out)

    def take_probe(self, name: str) -> None:
        """Note an echo: how far the server has read."""
        self._probe.came_back(name)
        if (
            self._probe.is_awaited
        ):  # a late echo, after it was given up: its successor has a time limit too
            self._wait()
        self._on_probe()

    def _time_out(self) -> None:
        self._probe.give_up()
        self._on_probe()
