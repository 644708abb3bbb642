"""The record of an answer to a ping, for the instance that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Millis


class PingAnswer(Struct, frozen=True, gc=False):
    """When a JID last answered a ping at an instance that did not send it; to be remembered until then."""

    jid: Jid
    at: Millis
    until: Millis
