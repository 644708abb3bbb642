"""The XMPP face: a component stream (XEP-0114) that speaks XEP-0060 and XEP-0254."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.core.model import Jid
from pubqueue.faces.xmpp.face import XmppFace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.broker import Broker
    from pubqueue.config import Settings

__all__ = ["XmppFace", "face_of"]


def face_of(broker: Broker, settings: Settings, on_ready: Callable[[], None]) -> XmppFace:
    """Return the face that these settings ask for."""
    return XmppFace(
        broker,
        jid=settings.jid,
        secret=settings.shared_secret(),
        server=settings.address(),
        admins=frozenset(Jid(jid) for jid in settings.admins),
        settle_by_get=settings.settle_by_get,
        on_ready=on_ready,
    )
