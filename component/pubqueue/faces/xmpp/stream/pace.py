"""How fast bulk data may be written to one stream: as far ahead as the server's echoes allow (`flow_probe`).

Notices to many and the answers to reads go at this pace, so that other stanzas do not wait for
megabytes before them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.stream.flow_probe import FlowProbe
from pubqueue.faces.xmpp.xml.text import attribute

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pubqueue.faces.xmpp.stream.component import Component

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
