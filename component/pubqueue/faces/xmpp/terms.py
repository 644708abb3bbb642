"""The configured settings of the face."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pubqueue.faces.xmpp.qos.terms import QosTerms
from pubqueue.rules.deliveries import USUAL, Repeating


class ServerPlace(Struct, frozen=True):
    """The port of a server for components, and the name and secret that it knows us by."""

    jid: str
    secret: str
    server: tuple[str, int]


class Terms(Struct, frozen=True, kw_only=True):
    """The settings that a reload can change."""

    settle_by_get: bool = True
    auto_creates: bool = True
    ping_after: float = 0.0
    """Seconds without a stanza after which a worker that holds items is pinged; 0: never."""
    repeating: Repeating | None = USUAL
    """How unanswered deliveries at a level are repeated; None: all deliveries are messages."""
    qos: QosTerms = QosTerms()


DEFAULTS: Final = Terms()
