"""The settings of the XMPP face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.config.users import administrators
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import QosTerms, ServerPlace, XmppTerms
from pubqueue.model.entities import Jid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.config.settings import Settings


def place_of(settings: Settings) -> ServerPlace:
    """Return the server, and the name and secret under which the service connects to it."""
    return ServerPlace(settings.jid, settings.shared_secret(), settings.address())


def terms_of(settings: Settings) -> XmppTerms:
    """Return the settings of the face; events go to the administrators, unless others are named."""
    qos = settings.qos
    to = tuple(map(Jid, qos.events_to)) or administrators(settings)
    return XmppTerms(
        settle_by_get=settings.settle_by_get,
        auto_creates=settings.auto_creates,
        ping_after=settings.ping_after,
        repeating=qos.repeating(),
        qos=QosTerms(qos.enabled, to, qos.events_every, qos.events_per_minute),
    )


class XmppReload:
    """Applies the settings of XMPP to the faces of XMPP among these."""

    def __init__(self, faces: Iterable[object]) -> None:
        self._faces = [face for face in faces if isinstance(face, XmppFace)]

    def take_settings(self, settings: Settings) -> None:
        """Apply the settings from the next stanza on."""
        for face in self._faces:
            face.adopt(terms_of(settings))
