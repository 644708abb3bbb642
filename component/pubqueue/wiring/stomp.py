"""The settings of the face of STOMP. Imported only if STOMP is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.listener import Bounds
from pubqueue.faces.stomp.codec import VERSIONS
from pubqueue.faces.stomp.face import UNREAD, UNSENT, StompFace
from pubqueue.faces.stomp.settings import StompTerms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.config.settings import Settings
    from pubqueue.faces.stomp.settings import StompSettings


def terms_of(stomp: StompSettings) -> StompTerms:
    """Return the settings of each connection."""
    return StompTerms(
        versions=tuple(VERSIONS[name] for name in VERSIONS if name in stomp.versions),
        hosts=stomp.hosts,
        heart_beat=round(stomp.heart_beat * 1000),
        max_subscriptions=stomp.subscriptions_per_connection,
        late_is_error=stomp.late_ack == "error",
    )


def bounds_of(stomp: StompSettings) -> Bounds:
    """Return the bounds of the listener."""
    return Bounds(
        connections=stomp.connections,
        per_user=stomp.connections_per_login,
        login=stomp.login_timeout,
        unread=UNREAD,
        unsent=UNSENT,
    )


class StompReload:
    """Applies the settings of STOMP that can change to the faces of STOMP among these."""

    def __init__(self, faces: Iterable[object]) -> None:
        self._faces = [face for face in faces if isinstance(face, StompFace)]

    def take_settings(self, settings: Settings) -> None:
        """Apply the settings from the next frame on."""
        for face in self._faces:
            face.auto_creates = settings.auto_creates
